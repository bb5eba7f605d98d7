import io
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs import InfrastructureError, OptionError, Task, TaskSet, TextEnv, TextGame, make
from comlrl_envs.cli import main
from comlrl_envs.cli.play import step
from comlrl_envs.cli.players import seat
from comlrl_envs.policies.human import HumanPolicy, PlayerLeft, fresh
from comlrl_envs.policies.scripted import EchoPolicy, OraclePolicy, RandomPolicy
from comlrl_envs.terminal import Terminal, visible
from tests.envs.person import Person
from tests.envs.toys import ROWS, Counting, TurnTaking, start, turn_taking_env

PLAY = ("play", "writing/length_ratio", "--seed", "0", "--task", "bees")
TWO_TURNS = ("--env.max_turns", "2", "--env.feedback", "levels")


def typed(text: str) -> tuple[HumanPolicy, io.StringIO]:
    out = io.StringIO()
    return HumanPolicy(Terminal(io.StringIO(text), out)), out


def replies_to(text: str, game: TextGame | None = None, count: int = 1) -> list[object]:
    game = game or TextGame(TurnTaking())
    return typed(text)[0].act_episodes(game, start(game, count), "asker", np.random.default_rng(0))


def test_a_person_sees_the_observation_types_lines_and_sees_reward_and_terms():
    with Person(*PLAY) as person:
        person.sees("summarizer, turn 1 of 1, task bees")
        person.sees("Write about bees.")
        person.sees("> ")
        person.types("Bees hum.\n")
        person.sees("> ")
        person.types("\n.\n")
        person.sees("elaborator, turn 1 of 1")
        person.sees("> ")
        person.types("Bees hum in\nthe garden.\n")
        person.sees("> the garden.")
        person.sees("> ")
        person.types(b"\x04")
        person.sees("Turn 1 of 1: reward 1")
        person.sees("ratio_reward  1")
        person.sees("length_ratio  2.3\n")
        person.sees("summarizer  characters    10")
        person.sees("elaborator  characters    23")
        person.sees("The episode is over after 1 turn: sum of rewards 1.")
        person.sees("Play another? [y/N] ")
        person.types("y\n")
        person.sees("Task ")
        person.sees("summarizer, turn 1 of 1")
        person.sees("> ")
        person.types("/quit\n")
        assert person.leaves() == 0
        assert b"\x1b[1m" in person.raw
        assert "Traceback" not in person.screen


def test_later_turns_show_what_is_new_and_the_whole_on_request():
    with Person(*PLAY, *TWO_TURNS, "--agents", "elaborator") as person:
        person.sees("> ")
        person.types("short\n.\n")
        person.sees("elaborator, turn 2 of 2")
        person.sees("the elaborator 5; their ratio")
        seen = person.screen[person.screen.index("elaborator, turn 2") :]
        assert "Write about bees." not in seen
        person.types("/full\n")
        person.sees("Write about bees.")
        person.sees("--- Your earlier reply ---\nshort")
        person.types("/help\n")
        person.sees("/quit")
        person.types("a much longer text.\n.\n")
        person.sees("summarizer wrote in turn 1:\nThere is")
        person.types("\n")
        assert person.leaves() == 0
        assert "summarizer, turn" not in person.screen


def test_bad_bytes_wide_and_right_to_left_signs_and_long_lines_in_a_tiny_terminal():
    with Person(*PLAY, size=(3, 5)) as person:
        person.sees("> ")
        person.types(b"\xff\xfe\n")
        person.types("日本語 שלום\n")
        person.types("\ta\u0301\n.\n")
        person.sees("elaborator")
        person.sees("> ")
        # Longer than the 4,095 bytes of a line that the terminal driver holds.
        for _ in range(5):
            person.types("x" * 1000)
        person.types("\n.\n")
        person.sees("summarizer  characters    15")
        person.sees("elaborator  characters    5000")
        person.types("n\n")
        assert person.leaves() == 0


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_no_colours_where_none_are_wanted(locale):
    with Person(*PLAY, NO_COLOR="1", LC_ALL=locale, PYTHONIOENCODING="ascii") as person:
        person.sees("> ")
        person.types("é\n/quit\n")
        assert person.leaves() == 0
        assert b"\x1b[1m" not in person.raw


def test_ctrl_c_leaves_quietly():
    with Person(*PLAY) as person:
        person.sees("> ")
        person.types("half a li")
        person.sees("half a li")
        person.interrupts()
        assert person.leaves() == 130
        assert "Traceback" not in person.screen


def test_ctrl_d_with_nothing_typed_leaves():
    with Person(*PLAY) as person:
        person.sees("> ")
        person.types(b"\x04")
        person.sees("The input ended before summarizer replied in turn 1.")
        assert person.leaves() == 0


def test_a_closed_terminal_ends_the_program():
    with Person(*PLAY) as person:
        person.sees("> ")
        person.hangs_up()
        assert person.leaves() != 0


def test_on_a_pipe_it_is_plain_and_too_short_an_input_fails():
    command = [sys.executable, "-m", "comlrl_envs", *PLAY]
    whole = subprocess.run(command, input=b"a\xff\n.\nbcd\n", capture_output=True, timeout=60)
    assert whole.returncode == 0, whole.stderr
    assert b"summarizer  characters    2\n" in whole.stdout
    assert b"elaborator  characters    3\n" in whole.stdout
    assert b"\x1b" not in whole.stdout
    short = subprocess.run(command, input=b"a\n.\n", capture_output=True, timeout=60)
    assert short.returncode == 1
    assert b"ended before elaborator replied" in short.stdout


def test_policies_can_be_watched(capsys):
    assert main([*PLAY, *TWO_TURNS, "--policies", "oracle"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("summarizer writes:\nThere is\n") == 2
    assert shown.count("their ratio is 2.50") == 2
    assert "Play another" not in shown


def test_a_wrong_agent_policy_or_task_is_named(capsys):
    assert main(["play", "writing/length_ratio", "--agents", "elaboratr"]) == 1
    assert "Did you mean 'elaborator'?" in capsys.readouterr().err
    assert main(["play", "writing/length_ratio", "--policies", "orcle"]) == 1
    assert "oracle" in capsys.readouterr().err
    assert main(["play", "writing/length_ratio", "--task", "beees", "--policies", "oracle"]) == 1
    assert "Did you mean 'bees'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("policies", "agents", "people"),
    [
        (None, None, ("asker", "answerer")),
        ("human", None, ("asker", "answerer")),
        ("human", "asker", ("asker", "answerer")),
        ("random", None, ()),
        (None, "answerer", ("answerer",)),
        ("random", "answerer, asker", ("asker", "answerer")),
    ],
)
def test_who_plays_whom(policies, agents, people):
    team = seat(TextGame(TurnTaking()), Terminal(io.StringIO(), io.StringIO()), policies, agents)
    assert team.people == people
    assert list(team.players) == [*people, *(a for a in ("asker", "answerer") if a not in people)]


def test_an_unknown_agent_is_refused():
    with pytest.raises(OptionError, match="Did you mean 'asker'"):
        seat(TextGame(TurnTaking()), Terminal(io.StringIO(), io.StringIO()), None, "askr")


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("a\nb\n.\n", "a\nb"),
        ("a\n\n\nb\n.", "a\n\n\nb"),
        (".\n", ""),
        ("no end", "no end"),
        ("..\n//help\n/usr/bin\n...\n//\n.\n", ".\n/help\n/usr/bin\n...\n//"),
        ("a\r\nb\r\n.\r\n", "a\nb"),
        ("/help\n/full\na\n . \n", "a"),
    ],
)
def test_what_is_typed_is_the_reply(text, reply):
    assert replies_to(text) == [reply]


def test_several_episodes_are_asked_one_after_another():
    assert replies_to("one\n.\ntwo\n.\n", count=2) == ["one", "two"]


@pytest.mark.parametrize(("text", "asked"), [("", False), ("/quit\n", True), ("a\n/quit\n", True)])
def test_leaving(text, asked):
    with pytest.raises(PlayerLeft) as left:
        replies_to(text)
    assert left.value.asked is asked


@pytest.mark.parametrize("memory", ["full", "last", "none"])
def test_what_is_fresh_does_not_depend_on_memory(memory):
    env = turn_taking_env(memory=memory)
    env.reset(seed=0, options={"task": 0})
    game = env.game
    assert fresh(game, env.episode, "asker") == "You are the asker. Prompt 0."
    env.step({"asker": "why"})
    assert fresh(game, env.episode, "answerer") == "You are the answerer. Prompt 0.\n\nHeard: why"
    assert fresh(game, env.episode, "asker") == "Heard: why"
    env.step({"answerer": "so"})
    assert fresh(game, env.episode, "asker") == "Heard: why\n\nHeard: so"


def test_a_text_cannot_drive_the_terminal():
    game = make("writing/length_ratio").game
    attack = "\x1b[2J\x1b]0;title\x07\x9b31mred\rover\x08\x7f\ud800"
    episode = game.start_many([Task("x", {"prompt": attack})], [0])[0]
    policy, out = typed("/full\n.\n")
    policy.act_episodes(game, [episode], "summarizer", np.random.default_rng(0))
    shown = out.getvalue()
    assert "␛[2J␛]0;title␇\ufffd31mred␍over␈␡\ufffd" in shown
    assert not set(shown) & set("\x1b\x07\x08\x7f\x9b\r")


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_visible_leaves_no_control_character(text):
    shown = visible(text)
    assert all(sign in "\n\t" or not (ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0) for sign in shown)
    shown.encode()


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_visible_changes_nothing_else(text):
    assert visible(text) == text


@dataclass(frozen=True)
class Flaky(Counting):
    """Its machine fails at the first try of each text."""

    tried: list[str] = field(default_factory=list, compare=False)

    def advance_many(self, pairs):
        for _, actions in pairs:
            if actions["a"] not in self.tried:
                self.tried.append(actions["a"])
                raise InfrastructureError("row0", "the pool is gone")
        return super().advance_many(pairs)


@pytest.mark.parametrize(("answer", "turns"), [("y", 1), ("", 1), ("n", 0)])
def test_a_failed_machine_may_be_asked_again(answer, turns):
    keyboard, terminal = os.openpty()
    with open(terminal, encoding="utf-8") as stdin, open(os.dup(terminal), "w", encoding="utf-8") as stdout:
        os.write(keyboard, f"{answer}\n".encode())
        env = TextEnv(TextGame(Flaky()), TaskSet(ROWS), "toy/flaky")
        env.reset(seed=0)
        with nullcontext() if turns else pytest.raises(PlayerLeft):
            step(env, {"a": "x", "b": "y"}, Terminal(stdin, stdout))
        assert env.episode.turn == turns
        shown = b""
        while b"the pool is gone" not in shown:
            shown += os.read(keyboard, 4096)
    os.close(keyboard)


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("/foo\nbar\n.\n", "bar"),
        ("/Quit\n//Quit\n.\n", "/Quit"),
        ("//foo\n//foo\n.\n", "/foo\n//foo"),
        ("a\n/foo\n.\n", "a\n/foo"),
        ("/usr/bin\n.\n", "/usr/bin"),
        ("/ foo\n.\n", "/ foo"),
    ],
)
def test_a_first_line_like_a_command_is_none_of_the_reply_unless_its_slash_is_doubled(text, reply):
    assert replies_to(text) == [reply]


def test_an_unknown_command_is_told():
    policy, out = typed("/quti\n/quit\n")
    with pytest.raises(PlayerLeft):
        policy.act_episodes(TextGame(TurnTaking()), start(TextGame(TurnTaking()), 1), "asker", np.random.default_rng(0))
    assert "No command /quti; //quti writes it. Did you mean '/quit'?" in out.getvalue()


@pytest.mark.parametrize(
    ("policies", "agents", "people", "others"),
    [
        ("human,oracle", None, ("asker",), {"answerer": OraclePolicy}),
        ("oracle,human", "answerer", ("answerer",), {"asker": OraclePolicy}),
        ("asker=human,answerer=random", None, ("asker",), {"answerer": RandomPolicy}),
        ("answerer=random", None, ("asker",), {"answerer": RandomPolicy}),
        ("answerer=random", "asker", ("asker",), {"answerer": RandomPolicy}),
        ("echo, random", None, (), {"asker": EchoPolicy, "answerer": RandomPolicy}),
    ],
)
def test_policies_are_named_as_in_eval(policies, agents, people, others):
    team = seat(TextGame(TurnTaking()), Terminal(io.StringIO(), io.StringIO()), policies, agents)
    assert team.people == people
    assert {agent: type(player) for agent, player in team.players.items() if agent not in people} == others


@pytest.mark.parametrize(
    ("policies", "agents", "says"),
    [
        ("random,oracle,echo", None, r"3 policies for 2 agents \(asker, answerer\)"),
        ("askr=random", None, "Did you mean 'asker'"),
        ("asker=random", "asker", "--policies gives asker to 'random'"),
        ("random,echo", "answerer", "--policies gives answerer to 'echo'"),
        ("", None, "--policies is empty"),
    ],
)
def test_teams_that_do_not_fit_are_refused(policies, agents, says):
    with pytest.raises(OptionError, match=says):
        seat(TextGame(TurnTaking()), Terminal(io.StringIO(), io.StringIO()), policies, agents)


def test_a_person_and_a_policy_play_together():
    command = [sys.executable, "-m", "comlrl_envs", *PLAY, "--policies", "human,oracle"]
    ran = subprocess.run(command, input=b"Bees hum.\n.\n", capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert b"summarizer, turn 1 of 1" in ran.stdout and b"elaborator, turn 1" not in ran.stdout
    assert b"elaborator wrote in turn 1:" in ran.stdout and b"summarizer  characters    9\n" in ran.stdout
