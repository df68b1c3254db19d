"""The older stacks from baking to the verdict, in a file of their own so that they run beside the default one."""

from __future__ import annotations

from pathlib import Path

import pytest
from stacks import (
    MUTATIONS,
    OLDER,
    Channel,
    Mutation,
    Stack,
    build,
    channel,
    check_a_handful_of_rules,
    check_that_it_is_red,
    check_the_main_job,
    check_the_pins,
)

pytestmark = pytest.mark.slow
__all__ = ["channel"]  # a fixture


@pytest.fixture(scope="module", params=OLDER)
def stack(request: pytest.FixtureRequest, channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return build(request.param, channel, tmp_path_factory)


def test_the_environment_has_the_pinned_versions(stack: Stack) -> None:
    check_the_pins(stack)


def test_nox_xla_sim_is_green_and_writes_its_reports(stack: Stack) -> None:
    check_the_main_job(stack)


def test_a_handful_of_rules_say_what_they_say_on_the_default_stack(stack: Stack) -> None:
    check_a_handful_of_rules(stack)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.test.removeprefix("test_"))
def test_each_test_is_red_where_its_behaviour_is_broken(stack: Stack, mutation: Mutation, tmp_path: Path) -> None:
    check_that_it_is_red(stack, mutation, tmp_path / "copy")
