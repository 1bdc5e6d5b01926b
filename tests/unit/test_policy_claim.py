# SPDX-License-Identifier: MIT
"""Several administrators change one domain at once (of libvirt's test driver, by connections of their own)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from abh import cli
from abh.errors import AbhError, Status
from abh.policy import apply, binding, claim, domain
from abh.schema import spec

URI = "test:///default"


@pytest.fixture
def one() -> Iterator[domain.Domain]:
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        yield domain.find(made, "test")


@contextlib.contextmanager
def administrator() -> Iterator[domain.Domain]:
    with binding.connection(URI) as made:
        yield domain.find(made, "test")


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


def test_of_many_changes_at_once_none_is_lost(one):
    """Each reads what is there, thinks, and writes it with one more; each the other way in turn."""

    def count(_: int) -> None:
        with administrator() as mine, claim.claim(mine):
            kept = mine.kept()
            time.sleep(0.005)
            more = replace(kept, deployed=str(int(kept.deployed or 0) + 1))
            if int(more.deployed) % 2:
                mine.keep(more)
            else:
                seen = mine.document(secrets=True)
                mine.redefine(seen, seen.replace(f">{kept.deployed}<", f">{more.deployed}<"))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(16)))
    assert one.kept().deployed == "16" and not claim.claims(one.tree())
    one.keep(domain.Kept())


def test_of_two_who_look_in_the_same_moment_none_goes_on_beside_the_other(one, monkeypatch):
    """Another's claim comes between one's look and one's own claim."""
    other = claim.NAMESPACE + "1" * 16
    put = domain.Domain.put_metadata
    put_at: list[float] = []

    def late(mine: domain.Domain, text: str | None, prefix: str, uri: str, *, live: bool) -> None:
        if not put_at:
            put_at.append(time.monotonic())
            put(one, "<claim by='the other'/>", claim.PREFIX, other, live=False)
        if put_at and time.monotonic() > put_at[0] + 0.5:
            put(one, None, claim.PREFIX, other, live=False)
        put(mine, text, prefix, uri, live=live)

    monkeypatch.setattr(domain.Domain, "put_metadata", late)
    monkeypatch.setattr(claim, "STALE_S", 0.7)
    with administrator() as mine, claim.claim(mine):
        assert time.monotonic() > put_at[0] + 0.5 and len(claim.claims(mine.tree())) == 1


def test_who_waits_too_long_is_told_for_whom_and_has_changed_nothing(one, monkeypatch, capsys):
    monkeypatch.setattr(claim, "PATIENCE_S", 1.5)
    before = one.kept()
    with claim.claim(one):
        for words in (("policy", "set", "test", "vm-thp"), ("policy", "unset", "test")):
            assert run(*words) == Status.FAILED
            said = capsys.readouterr().err
            assert "another abh is changing this domain" in said and "process" in said
    assert one.kept() == before and not claim.claims(one.tree())
    assert run("policy", "set", "test", "vm-thp") == 0 and run("policy", "unset", "test") == 0
    assert "claim" not in one.document() and "claim" not in one.document(live=True)


def test_a_claim_whose_maker_was_killed_is_waited_for_and_then_gone(one, monkeypatch):
    monkeypatch.setattr(claim, "STALE_S", 0.5)
    one.put_metadata("<claim by='a dead one'/>", claim.PREFIX, claim.NAMESPACE + "0" * 16, live=True)
    assert set(claim.claims(one.tree())) == {"0" * 16}
    begin = time.monotonic()
    assert run("policy", "set", "test", "vm-thp") == 0
    assert time.monotonic() - begin > 0.5
    assert not claim.claims(one.tree()) and not claim.claims(one.tree(live=True))
    run("policy", "unset", "test")


def test_who_was_taken_for_dead_writes_nothing_more(one):
    with claim.claim(one):
        seen = one.document(secrets=True)
        (token,) = claim.claims(one.tree())
        claim.drop(one, token)
        for change in (lambda: one.keep(domain.Kept("a", "b")), lambda: one.redefine(seen, seen)):
            with pytest.raises(AbhError) as error:
                change()
            assert "another has changed the domain meanwhile" in str(error.value)
        seen = one.document(secrets=True)
        with pytest.raises(AbhError):
            one.redefine(seen, seen)
    assert one.kept() == domain.Kept()


def test_a_policy_that_another_has_set_meanwhile_is_not_mixed_with_ones_own(one):
    assert run("policy", "set", "test", "vm-thp") == 0
    mine = one.policy()
    assert run("policy", "set", "test", "vm-hugetlb") == 0
    before = one.document()
    with pytest.raises(AbhError) as error:
        apply.definition(one, mine)
    assert "another has changed the domain's policy meanwhile" in str(error.value)
    assert one.document() == before
    run("policy", "unset", "test")


def test_set_says_which_policy_it_replaces(one, capsys):
    assert run("policy", "set", "test", "vm-thp") == 0 and run("policy", "set", "test", "vm-hugetlb") == 0
    assert "policy vm-hugetlb in place of vm-thp" in capsys.readouterr().out
    run("policy", "unset", "test")


@pytest.mark.parametrize("name", ["vm-thp", "vm-hugetlb"])
def test_a_define_that_fails_leaves_domain_and_claims_as_they_were(one, name, monkeypatch):
    assert run("policy", "set", "test", name) == 0
    before = one.document()

    def fails(*_: object) -> None:
        raise binding.load().libvirtError("it has gone away")

    class Connection:
        defineXMLFlags = fails

    with administrator() as mine:
        mine.connection = Connection()
        with pytest.raises(AbhError):
            apply.definition(mine, spec.policy(name))
        with pytest.raises(AbhError):
            apply.definition(mine, mine.policy())
    assert one.document() == before
    run("policy", "unset", "test")
