"""A sound game passes every check, and each check fails on a twin of it that breaks one promise."""

from typing import Any

import pytest

from comlrl_envs import Episode, OptionError, TextEnv, TextGame
from comlrl_envs.scenario import Scenario
from comlrl_envs.testing import (
    CHECKS,
    CheckError,
    ConformanceError,
    Subject,
    check_env,
    hostile_texts,
    run_check,
)
from comlrl_envs.testing.gold import found_in, gold_fields, plant

from . import relay, shells
from .relay import relay_env

SOUND = Subject(f"{relay.__name__}:relay_env", gold=("answer",), replies=120)


def rules(broken: type[Scenario], **changes: Any) -> Subject:
    return SOUND.replaced(kwargs={"rules": broken}, **changes)


def shell(broken: type[TextEnv], **changes: Any) -> Subject:
    return SOUND.replaced(kwargs={"shell": broken}, **changes)


MUTANTS = [
    ("attributes", shell(shells.Nameless), "metadata"),
    ("parallel_api", shell(shells.FreshSpaces), "exact same space object"),
    ("seed_suites", rules(relay.CountsCalls), "Incorrect observation"),
    ("aec_api", shell(shells.NarrowObservations), "Out of bounds observation"),
    ("state_suite", shell(shells.NarrowState), "outside"),
    ("spaces", shell(shells.FreshSpaces), "another object"),
    ("spaces", shell(shells.LongSamples), "outside itself"),
    ("spaces", shell(shells.NarrowObservations), "was shown a str of"),
    ("rewards", shell(shells.UnequalRewards), "differ"),
    ("rewards", shell(shells.NumpyRewards), "float64"),
    ("rewards", shell(shells.BeyondTheRange), "outside"),
    ("rewards", shell(shells.HiddenTerm), "sum to"),
    ("endings", shell(shells.LeavesAlone), "only some agents"),
    ("endings", shell(shells.Truncates), "without an outer limit"),
    ("infos", shell(shells.LateKey), "metric/late"),
    ("infos", shell(shells.NotANumber), "no finite plain numbers"),
    ("bad_actions", shell(shells.Lenient), "was taken"),
    ("hostile_replies", rules(relay.ReadsNumbers), "ValueError"),
    ("hostile_replies", rules(relay.ReadsJson), "RecursionError"),
    ("hostile_replies", rules(relay.NestedQuantifier, step_seconds=0.1), "step takes"),
    # Unseeded draws may be equal once; then the next comparison of the check tells.
    ("resets", shell(shells.FalsySeed), r"seed=(0|np\.int64\(0\)) differ"),
    ("resets", shell(shells.OneTask), "60 seeds drew 1 of 12"),
    ("resets", shell(shells.OneEpisode), "same episode"),
    ("resets", rules(relay.Remembers), "differ|kept something"),
    ("replay", rules(relay.SetOrder), "PYTHONHASHSEED"),
    ("replay", rules(relay.CountsCalls), "of this process"),
    ("fork", rules(relay.Remembers), "differ"),
    ("fork", shell(shells.ForksShareSpaces), "shares its spaces"),
    ("saved_state", shell(shells.ForgetsTheTurn), "changed the episode"),
    ("pickle", shell(shells.HoldsALock), "cannot be pickled"),
    ("pickle", rules(relay.SetOrder), "fresh process"),
    ("global_generators", rules(relay.DrawsGlobally), "moved"),
    ("global_generators", rules(relay.SeedsNumpy), "moved"),
    ("pure_reads", rules(relay.CountsCalls), "second call"),
    ("pure_reads", rules(relay.MovingBrief), "brief of 'reader' changed"),
    ("pure_reads", rules(relay.KeepsLists), "hashed"),
    ("keyword_arguments", SOUND.replaced(make=f"{relay.__name__}:ignores_keywords"), "prompts= was given"),
    ("keyword_arguments", SOUND.replaced(make=f"{relay.__name__}:swallows_keywords"), "max_turn': 2} was accepted"),
    ("gold", rules(relay.LeaksInFeedback), "answer.*step returned after turn 1"),
    ("gold", rules(relay.LeaksInFeedback, gold=None), "answer"),
    ("gold", rules(relay.LeaksInBrief), "at the start"),
    ("gold", rules(relay.LeaksInBrief, items=[{"clue": "page of fog", "answer": "Key gof"}]), "at the start"),
    ("gold", shell(shells.LeaksInInfos), "step returned"),
    ("gold", shell(shells.TellsInErrors), "the error ActionError"),
    ("gold", shell(shells.Nameless, gold=("anwser",)), "no field"),
    ("gold", rules(relay.LeaksLate), "at the start"),
    ("gold", rules(relay.ShowsNumber, items=relay.coded_rows(), gold=("code",)), "'code'.*at the start"),
    ("hostile_replies", rules(relay.Shouts), "was shown .* outside"),
    ("infos", rules(relay.CountsSuccesses), "metric/success is 7.0"),
    ("oracle", rules(relay.PaysSilence), "'empty' earned 1, more than the 0 of"),
    ("channel", rules(relay.Secretive), "no teammate is shown anything else"),
    ("channel", rules(relay.Overhears), r"\['writer'\] are shown what 'reader' said"),
    ("oracle", rules(relay.PoorOracle), "1 less"),
    ("oracle", rules(relay.TimidReachable), "1 more"),
    ("floors", rules(relay.PaysForNothing), "0.5 above 0"),
    ("floors", rules(relay.UnknownFloor), "Did you mean 'empty'"),
    ("channel", rules(relay.BlanksNothing), "changes no gold reply"),
    ("channel", rules(relay.KnowsAnyway), "does not cost"),
    ("channel", rules(relay.DeniesItsChannel), "channel is False"),
]


def test_a_sound_game_passes_every_check():
    notes = check_env(SOUND)
    assert notes.keys() <= {"golden", "channel", "supersuit"}
    assert notes["channel"] == "no channel from ['writer']: blank changes nothing that teammates are shown of them"


@pytest.mark.parametrize(("check", "subject", "told"), MUTANTS, ids=[f"{name}-{told}" for name, _, told in MUTANTS])
def test_a_broken_promise_is_noticed(check, subject, told):
    with pytest.raises(CheckError, match=f"(?s){told}") as broken:
        run_check(check, subject)
    assert broken.value.mend


def test_texts_of_another_library_are_noticed():
    pytest.importorskip("supersuit")
    with pytest.raises(CheckError, match="iterate"):
        run_check("supersuit", shell(shells.GymnasiumSpaces))


def test_every_check_has_a_mutant():
    assert {check for check, _, _ in MUTANTS} | {"golden", "supersuit"} == set(CHECKS)


def test_all_failures_are_listed_with_their_mends():
    with pytest.raises(ConformanceError) as broken:
        check_env(shell(shells.NumpyRewards), skip=["replay", "pickle"])
    names = [failure.check for failure in broken.value.failures]
    assert "rewards" in names and "replay" not in names
    assert "float64" in str(broken.value) and "Convert with float()." in str(broken.value)


def test_wrong_requests_name_what_is_near():
    with pytest.raises(OptionError, match="Did you mean 'rewards'"):
        run_check("reward", SOUND)
    with pytest.raises(OptionError, match="Did you mean 'pickle'"):
        check_env(SOUND, skip=["pickel"])
    with pytest.raises(OptionError, match="Did you mean 'replies'"):
        check_env(relay_env, reply=3)
    with pytest.raises(OptionError, match="cannot be imported"):
        Subject("no.such:module").env()
    with pytest.raises(OptionError, match="gave a dict"):
        Subject(dict).env()


def test_a_callable_is_checked_as_far_as_it_can_be():
    local = lambda: relay_env()  # noqa: E731
    notes = {name: run_check(name, Subject(local)) for name in ("replay", "pickle", "keyword_arguments", "golden")}
    assert notes["replay"].startswith("replayed in this process only")
    assert notes["pickle"].startswith("pickled in this process only")
    assert "built by a callable" in notes["keyword_arguments"]
    assert "no file" in notes["golden"]


def test_canaries_take_the_place_of_texts_and_are_found_in_pieces():
    row = {"id": "1", "steps": ["go left", {"then": "stop"}], "number": 3, "empty": ""}
    planted = plant(row, ["steps", "number"])
    assert planted.fields == ("steps", "number")
    assert planted.row["steps"] == ["qzx0vjk qzx0vjk", {"then": "qzx0vjk"}]
    number = planted.row["number"]
    assert number != 3 and found_in(f"It is {number:,}.", planted) == ["number"]
    assert found_in(f"It is 1{number}; QZX0VJK.", planted) == ["steps"]
    assert plant(row, ["number"]).fields == ("number",) and plant({"flag": True}, ["flag"]).fields == ()
    assert gold_fields(SOUND.replaced(gold=None)) == ["answer"]


def test_named_gold_without_a_canary_is_said():
    coded = rules(relay.Safe, items=relay.coded_rows())
    assert run_check("gold", coded.replaced(gold=("code",))) is None
    assert run_check("gold", coded.replaced(gold=("code", "open"))) == (
        "no row has a text or a number in ['open']; these fields were not checked"
    )


def test_the_suite_provokes_no_warnings_about_reset_options(caplog):
    for check in ("parallel_api", "seed_suites", "aec_api", "state_suite"):
        run_check(check, SOUND)
    assert "Ignored reset option" not in caplog.text
    relay_env().reset(options={"options": 1})
    assert "Ignored reset option 'options'" in caplog.text


def test_tasks_without_an_oracle_are_counted():
    known = sum("r" in row["answer"] for row in relay.rows(relay.WORDS[:12]))
    assert run_check("oracle", rules(relay.KnowsHalf)) == f"no oracle on {12 - known} of 12 tasks"
    assert run_check("oracle", rules(relay.KnowsHalf, tasks=2)) is None


def shout(game: TextGame, episode: Episode) -> dict[str, str]:
    return {agent: text.upper() for agent, text in game.prompts(episode).items()}


def test_floor_policies_of_ones_own():
    assert run_check("floors", rules(relay.BoundsShouting, policies={"shout": shout})) is None
    with pytest.raises(CheckError, match="policies="):
        run_check("floors", rules(relay.BoundsShouting))


def test_hostile_texts_are_many_and_the_same_each_time():
    texts = hostile_texts(400, seed=3, seen=("Prompt <answer>",))
    assert texts == hostile_texts(400, seed=3, seen=("Prompt <answer>",))
    assert len(set(texts)) > 150 and max(map(len, texts)) >= 2**20
    joined = "".join(texts)
    assert all(sign in joined for sign in ("\0", "\ud800", "\u202e", "{", "Prompt"))
