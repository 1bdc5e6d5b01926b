# SPDX-License-Identifier: MIT
"""What the counters of Xen's superpages have to be of each guest of tests/xen, so that it tested what it is for."""

from __future__ import annotations

from collections.abc import Sequence

from abh.verify import xen

# Counters that a test is for, and that are to be more than 0 where superpages are on; of all others, direct.
SHOWN = {
    "test:balloon": ("direct", "demoted_mapping", "promoted"),
    "test:clean": ("direct", "demoted_fault"),
    "test:grants": ("direct", "demoted_mapping"),
    "test:tables": ("direct", "demoted_table", "splintered_wait"),
    "test:aliases": ("demoted_table", "splintered_many"),
    "test:exchanged": ("direct", "splintered_p2m"),
    "test:levels": ("direct", "demoted_table"),
    "test:modes": ("direct", "demoted_table"),
    "test:tug": ("direct", "demoted_table", "demoted_mapping"),
    "test:upper": ("direct", "splintered_write"),
    "vain:tables": ("splintered_dirty",),
    "test:linux": ("direct", "demoted_table", "promoted"),
    "test:pod": ("direct", "demoted_mapping"),
    "save:churn": ("before_live", "direct"),
    "pieces:churn": ("before_live", "splintered_p2m"),
    "migrate:churn": ("before_live", "direct"),
    "dirty:churn": ("before_live", "during_splintered_dirty", "live"),
    "pin:churn": ("before_live", "during_splintered_cache", "live"),
    "switch:churn": ("before_live", "live"),
    "turns:linux": ("demoted_table",),
    "refuse:sizes": (),
}
# What Xen has of a domain, whatever its paging, and what of it by superpages: after these as much, and not less.
RESTORED, MAPPED, HUGE = ("save:churn", "pieces:churn", "migrate:churn"), "host_mapped_kib", "p2m_huge_kib"
# None, where each request for 2 MiB was refused; it is not repeated more often (libxenguest).
REFUSALS = 16
# And that are to be 0, though superpages are on.
GONE = {
    "dirty:churn": "during_live", "switch:churn": "during_live", "turns:linux": "during_live",
    "vain:tables": "during_promoted",
}  # fmt: skip
# And that are to be so many: what its shadow had each time that all was taken back, what of it had splinters then, and
# what was made; and what is made by what comes back after one wait, beside as many as the shadow has room for.
LEAST = {
    "turns:linux": dict.fromkeys(("taken_live", "splintered_dirty", "direct"), 2000),
    "test:aliases": {"direct": 600},
}


def unshown(verdicts: Sequence[xen.Verdict]) -> list[str]:
    """Guests whose shadow had no superpage though they were on, or had one though they were off."""
    found = []
    for each in verdicts:
        which = each.variant.split("~")[0].replace(xen.PAE, "")
        if each.variant.endswith("-1"):
            found += [f"{each.variant}: {what}" for what in _lacking(which, each.counters)]
        if which in RESTORED:
            found += [f"{each.variant}: {what}: {each.counters}" for what in _restored(which, each.counters)]
        others = ("shadow_pages", "drop_ns", MAPPED, HUGE)
        if each.variant.endswith("-0") and any(
            count for name, count in each.counters.items() if not name.endswith(others)
        ):
            found.append(f"{each.variant}: superpages are off, and something was counted: {each.counters}")
    return found


def _lacking(which: str, counters: dict[str, int]) -> list[str]:
    """What a guest whose superpages are on should have had, and had not."""
    missing = [counter for counter in SHOWN.get(which, ("direct",)) if not counters.get(counter)]
    found = []
    if missing and not which.startswith("beside"):
        found.append(f"superpages are on, and there were none of: {', '.join(missing)}")
    if counters.get(GONE.get(which, "")):
        found.append(f"{GONE[which]} is {counters[GONE[which]]}, not 0")
    few = {name: least for name, least in LEAST.get(which, {}).items() if counters.get(name, 0) < least}
    return found + [f"{name} is {counters.get(name, 0)}, not {least} or more" for name, least in few.items()]


def _restored(which: str, counters: dict[str, int]) -> list[str]:
    """What is wrong with the memory of a domain that was restored."""
    mapped, huge = ([counters.get(when + name, 0) for when in ("before_", "")] for name in (MAPPED, HUGE))
    found = [] if 0 < mapped[0] == mapped[1] else ["Xen does not have as much of it as before"]
    if which == "pieces:churn":
        if huge[1] or not 0 < counters.get("refused", 0) <= REFUSALS:
            found.append("2 MiB were refused, and it has some, or they were not asked for as often as they should")
    elif not 0 < huge[0] <= huge[1]:
        found.append("Xen has not by superpages what it had before")
    return found
