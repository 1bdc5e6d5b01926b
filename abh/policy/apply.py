# SPDX-License-Identifier: MIT
"""Makes a VM as its policy says: its definition at once, what runs as far as that can be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from abh.errors import AbhError
from abh.policy import binding, change, guest, hook, host, install, suited, xml
from abh.policy.claim import claim
from abh.policy.deployed import Deployed
from abh.policy.domain import Domain, Kept, element_of
from abh.policy.evidence import Evidence
from abh.policy.memory import Unreadable
from abh.schema.policy import Policy

NO_POLICY = "no policy"


@dataclass(frozen=True)
class Done:
    """What was changed, what was not and why, and whether a restart is needed."""

    changed: tuple[str, ...]
    failed: tuple[str, ...]
    restart: bool
    hint: str | None = None  # of what else is missing
    earlier: str | None = None  # what holds in place of the policy, or will at the next start


def hypervisor_of(domain: Domain) -> str:
    """xen, or kvm, which stands for all that QEMU runs."""
    return "xen" if domain.tree().get("type") == "xen" else "kvm"


def definition(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """Makes the domain's XML as its policy says; says what has changed."""

    def wanted() -> tuple[str, change.Changed, Kept]:
        seen, kept, mode = domain.document(secrets=True), domain.kept(), change.mode_of(policy)
        made = change.apply(seen, policy.vm, hypervisor_of(domain), kept.before, domain.where, mode)
        return seen, made, replace(kept, before=made.before)

    if not domain.persistent:
        return ()
    seen, made, after = wanted()
    if after == domain.kept() and made.document == seen:
        return made.said
    with claim(domain):
        if domain.policy() != policy:
            raise AbhError(
                "another has changed the domain's policy meanwhile",
                where=domain.where,
                next_step="run the same command again",
            )
        seen, made, after = wanted()
        _define(domain, seen, made, after)
    return made.said


def unset(domain: Domain) -> tuple[str, ...]:
    """Removes the policy, and makes the domain's XML as it was before; says what has changed."""
    with claim(domain):
        kept = domain.kept()
        after = Kept(deployed=kept.deployed)
        said: tuple[str, ...] = ()
        if domain.persistent and kept.before:
            seen = domain.document(secrets=True)
            made = change.undo(seen, kept.before, domain.where)
            _define(domain, seen, made, after)
            said = made.said
            after = domain.kept()
        domain.keep(after)  # of what runs, too
    return said


def salvaged(domain: Domain) -> Kept:
    """Of what another version of abh keeps, what it found where it changed the domain, if that can be read here."""
    element = domain.tree().find(f"metadata/{xml.tag('vm')}")
    before = (element.findtext(xml.tag("before")) or "") if element is not None else ""
    try:
        change.undo(domain.document(), before, domain.where)
    except AbhError:
        print(f"! {domain.name}: what another version of abh has changed in this domain cannot be taken back any more")
        return Kept()
    return Kept(before=before)


def _define(domain: Domain, seen: str, made: change.Changed, after: Kept) -> None:
    """Metadata and definition change in one step: a kill between two would leave what cannot be taken back."""
    tree = xml.verbatim(made.document, domain.where)
    xml.put_ours(tree, element_of(after), domain.where)
    was = domain.document()
    domain.redefine(seen, xml.text_of(tree))
    deployed = Deployed.of(after).changed_by_abh(was, domain.document()).text() if after.deployed else ""
    if deployed != after.deployed:
        domain.keep(replace(after, deployed=deployed))


def running(domain: Domain, policy: Policy, seen: Evidence) -> tuple[list[str], list[str]]:
    """Changes what runs: the guest's switches, and base pages into hugepages."""
    changed: list[str] = []
    failed: list[str] = []
    for path, wanted in policy.guest.sysfs.items():
        try:
            now = host.chosen(seen.agent.text_of(path))
            if now == wanted:
                continue
            seen.agent.write(path, wanted)
            after = host.chosen(seen.agent.text_of(path))
        except guest.NoAgent as error:
            failed.append(f"guest: {error}")
            break  # of the other switches it would say the same
        except Unreadable as error:
            failed.append(f"guest {path}: {error}")
            continue
        (changed if after == wanted else failed).append(f"guest {path}: {now} -> {after}, wanted {wanted}")
    if policy.vm.collapse is not None:
        try:
            done = hook.collapse(seen.pid, seen.sizes_kib)
        except (Unreadable, PermissionError) as error:
            failed.append(f"collapse: {error}")
        else:
            changed.append(
                f"collapse: {done.made} hugepages made" + (f", not made: {done.failed}" if done.failed else "")
            )
    return changed, failed


def apply(domain: Domain, policy: Policy) -> Done:
    """All of it."""
    past = earlier(domain)  # before what is kept is written anew
    said = definition(domain, policy)
    failed = _unfit(domain, policy)
    hint = without_hook(domain, policy)
    if not domain.running:
        return Done(said, tuple(failed), bool(past), hint, past)
    changed, not_changed = running(domain, policy, Evidence(domain))
    restart = bool(past or differing(domain, policy))
    return Done((*said, *changed), (*failed, *not_changed), restart, hint, past)


def _unfit(domain: Domain, policy: Policy) -> list[str]:
    """Why the domain, as it is defined now, cannot be as the policy says."""
    document = domain.document()
    if hypervisor_of(domain) == "kvm":
        why = change.unfit(document, policy.vm, domain.where)
    else:  # of a policy that an earlier abh has set
        found = suited.no_shadow(policy, document, domain.where)
        why = f"domain: {found[0]}: {found[1]}" if found else None
    return [why] if why else []


def earlier(domain: Domain, *, of_policy: bool = False) -> str | None:
    """What of another time holds, or will at the next start: libvirt restores a saved state with its XML of then.

    `of_policy`: only where that is of another policy, or where it cannot be told of which.
    """
    now = _wanted(domain.kept)
    if domain.saved:
        document = domain.saved_document()
        then = document and _wanted(lambda: domain.kept_in(document))
        if of_policy and then == now:
            return None
        return (
            f"its state is saved (managed save){f' with {then[0]}' if then else ''}: the next start goes on from that,"
            " with definition and policy as they were then, and what is required since is not checked; start it and"
            f" shut it down once, or `virsh managedsave-remove {domain.name}`, which loses the state"
        )
    if not domain.running or not domain.persistent:
        return None
    then = _wanted(lambda: domain.kept(live=True))
    if then == now:
        return None
    asked = now[0] if now[0] != NO_POLICY else "its definition"
    return (
        f"it runs with {then[0]}, as it was when its state was saved, and what is required in"
        f" {asked} was not checked at its start; shut it down, and start it"
    )


def _wanted(kept_of_then: Callable[[], Kept]) -> tuple[str, ...]:
    """The policy's name, for people, and all that it says."""
    try:
        kept = kept_of_then()
    except AbhError:
        return ("a policy that this abh cannot read",)
    return kept.name or NO_POLICY, kept.policy, *kept.required


def without_hook(domain: Domain, policy: Policy) -> str | None:
    """What of the policy nobody will see to where the VM starts or arrives next, as far as that shows from here."""
    wants: list[str] = [name for name in policy.vm.required if name not in ("guest", "huge_share")]
    wants += ["collapse"] * (policy.vm.collapse == "start") + ["domain"] * bool(policy.host.domain)
    if not wants:
        return None
    what = f"{', '.join(dict.fromkeys(wants))}: seen to by the hook, on each host where the VM starts or is moved to"
    if binding.state_folder(domain.connection) is None:
        return f"{what}; whether it is installed there cannot be seen from here: `abh policy hook status` there"
    state = install.examine().state
    return None if state == "installed" else f"{what}; on this one it is {state}: `abh policy hook install`"


def differing(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """Where what runs is not what a restart would bring; of a transient domain, what the policy wants."""
    if domain.persistent:
        return outlived(domain)
    live = domain.document(live=True)
    return change.apply(live, policy.vm, hypervisor_of(domain), "", domain.where, change.mode_of(policy)).said


def outlived(domain: Domain) -> tuple[str, ...]:
    """The places of a persistent domain at which what runs, if it runs, is not what is defined."""
    if not domain.running or not domain.persistent:
        return ()
    return change.differences(domain.document(live=True), domain.document(), domain.where)
