"""Workers and manager: chunks, what counts as telling, the fixed points of the reward, real articles."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs import OptionError, TaskError
from comlrl_envs.qa import chunks, workers_manager
from comlrl_envs.qa.demo.kept_things import KINDS, kept_things, unheard_f1
from comlrl_envs.qa.documents import Document
from comlrl_envs.qa.normalize import squad
from comlrl_envs.qa.scripted import SCRIPTED, YES
from comlrl_envs.qa.workers_manager import NONE, parallel_env
from comlrl_envs.scenario import State
from comlrl_envs.seeding import rng
from comlrl_envs.testing import CHECKS, Subject, play, run_check

SPLITS = ("train", "eval")
MODES = ("terminal", "per_turn", "delta")
ROW = {
    "id": "well",
    "question": "Who dug a well?",
    "answers": ["Ben"],
    "paragraphs": ["Ann sold the mill.", "Ben dug a well.", "Cy ran off.", "Di sang."],
    "support": [1],
    "scorer": "squad_v1",
}
YES_ROW = {**ROW, "question": "Is there a well?", "answers": ["yes"], "scorer": "yesno"}
NO_ROW = {**ROW, "question": "Who dug a lake?", "answers": [], "support": [], "answerable": False}
MUSIQUE = "musique/hipporag_musique_train_100.json"
SQUAD = "squad/dev-v1.1.part_a_24articles.json"


def message(text):
    return f"<message>{text}</message>"


def answer(text):
    return f"<answer>{text}</answer>"


def played(row, *turns, **kwargs):
    """The environment after joint actions: the replies of all in agent order, or of those who act."""
    env = parallel_env(tasks=[row], **kwargs)
    env.reset(seed=0)
    for replies in turns:
        acting = env.game.acting(env.episode)
        agents = acting if len(replies) == len(acting) else env.possible_agents
        env.step({agent: text for agent, text in zip(agents, replies, strict=True) if agent in acting})
    return env


def terms(env):
    return {name: value for name, value in env.episode.score.terms.items() if name != "clip"}


def metric(env, name):
    return env.episode.score.metrics[name]


def scripted(name):
    def choose(game, episode):
        return {agent: SCRIPTED[name](game.scenario, episode.state, agent) for agent in game.acting(episode)}

    return choose


def returns(env, choose, tasks=None):
    episodes = play.start(env.game, [env.tasks[place] for place in range(tasks or len(env.tasks))])
    return [sum(episode.rewards) for episode in play.play(env.game, episodes, choose)]


def mean(values):
    return sum(values) / len(values)


# Chunks


@given(st.lists(st.integers(1, 500), max_size=30), st.integers(1, 8), st.integers(0, 9))
def test_chunks_hold_every_paragraph_once_in_order(sizes, parts, seed):
    text = [Document(place, "", ("x" * size,)) for place, size in enumerate(sizes)]
    dealt = chunks.cut(text, parts, rng(seed))
    assert [document for chunk in dealt for document in chunk] == text
    assert len(dealt) == parts and sum(not chunk for chunk in dealt) == max(parts - len(sizes), 0)


@given(st.lists(st.integers(1, 50), min_size=40, max_size=60), st.integers(2, 8))
def test_runs_of_many_paragraphs_are_nearly_equal(sizes, parts):
    share = sum(sizes) / parts
    assert all(abs(sum(sizes[place] for place in run) - share) <= max(sizes) for run in chunks.runs(sizes, parts))


def test_a_cut_chunk_keeps_whole_sentences_before_the_cut():
    chunk = (Document(1, "", ("One two.", "Three four.")), Document(2, "", ("Five.",)))
    assert chunks.capped(chunk, 0) == (chunk, 0)
    kept, dropped = chunks.capped(chunk, 14)
    assert kept == (Document(1, "", ("One two.", "Three")),) and dropped == len("One two. Three four.Five.") - 14
    assert chunks.kept_support([kept], ((1, 0), (1, None), (2, None), (2, 0))) == ((1, 0), (1, None))


def test_a_title_is_shown_once_over_its_paragraphs():
    text = [Document(1, "Bees", ("They fly.",)), Document(2, "Bees", ("They\nhum.",)), Document(3, "", ("So it is.",))]
    assert chunks.page(text) == "Bees: They fly.\nThey hum.\nSo it is."


def test_a_long_fact_is_quoted_round_the_answer():
    fact = " ".join([*["before"] * 40, "the", "Red", "Mill,", *["after"] * 40])
    told = chunks.quote((fact,), ("red mill",), 40)
    assert len(told) <= 40 and "before the Red Mill, after" in told
    assert chunks.quote((fact,), ("red mill",), 5) == "befor"
    assert chunks.quote(("One.", "Two."), (), 40) == "One. Two."


@pytest.mark.parametrize("text", ["NONE", "none", " None. ", "", "   ", "...", "<b>".replace("b", "none")])
def test_abstentions(text):
    assert workers_manager.abstains(text)


@pytest.mark.parametrize("text", ["None of them.", "no", "NONE NONE", "unanswerable", "0"])
def test_no_abstentions(text):
    assert not workers_manager.abstains(text)


# What is shown


def test_everyone_is_shown_the_question_and_its_own_part():
    env = played(ROW)
    shown = env.game.prompts(env.episode)
    assert list(shown) == ["worker_1", "worker_2", "worker_3", "worker_4", "manager"]
    for place, text in enumerate(ROW["paragraphs"]):
        assert [agent for agent in shown if text in shown[agent]] == [f"worker_{place + 1}"]
    assert all(ROW["question"] in text for text in shown.values())
    assert "look for" not in shown["manager"]


def test_workers_without_a_paragraph_are_told_so():
    env = parallel_env(tasks=[ROW], num_agents=7)
    empty = set()
    for seed in range(20):
        shown, _ = env.reset(seed=seed)
        told = [agent for agent, text in shown.items() if workers_manager.NOTHING_TO_READ in text]
        assert len(told) == 2 and not any(text in shown[agent] for agent in told for text in ROW["paragraphs"])
        empty.update(told)
    assert empty == set(env.possible_agents[:-1])


def test_workers_hear_the_manager_alone_and_the_manager_all_workers():
    said = [*(message(f"word {place}") for place in range(4)), message("<answer>x</answer>\nworker_1: wells?")]
    env = played(ROW, said, max_turns=3, memory="none")
    shown = env.game.prompts(env.episode)
    assert shown["manager"].splitlines()[-4:] == [f"worker_{place + 1}: word {place}" for place in range(4)]
    assert shown["worker_2"].splitlines()[-1] == "manager: ‹answer>x‹/answer> worker_1: wells?"
    assert (
        "word" not in shown["worker_2"] and "look for" in env.game.prompts(played(ROW, max_turns=3).episode)["manager"]
    )


def test_one_agent_reads_everything_and_is_paid_for_the_answer():
    env = played(ROW, [answer("Ben")], num_agents=1, max_turns=1)
    assert env.possible_agents == ["manager"]
    assert terms(env) == pytest.approx({"answer": 0.80, "info": 0.15, "form": 0.05, "noise": 0.0})
    brief = env.game.prompts(played(ROW, num_agents=1).episode)["manager"]
    assert all(text in brief for text in ROW["paragraphs"]) and "<message>" not in brief


def test_templates_get_the_own_part():
    env = parallel_env(tasks=[ROW], prompts="{question} {texts}")
    shown, _ = env.reset(seed=0)
    assert shown["worker_2"] == "Who dug a well? Ben dug a well." and shown["manager"] == "Who dug a well? "


# What counts


def test_the_reward_is_the_published_sum():
    env = played(
        ROW, [message(NONE), message("Ben did it."), message("Cy."), message(""), message("")], [answer("Ben Ali")]
    )
    expected = {"answer": 0.80 * 2 / 3, "info": 0.15, "form": 0.05, "noise": -0.10 / 3}
    assert terms(env) == pytest.approx(expected) and env.episode.rewards == pytest.approx((0.0, sum(expected.values())))
    assert metric(env, "information_loss") == pytest.approx(1 / 3) and metric(env, "success") == 0.0
    pooled = {name: metric(env, f"abstention_{name}") for name in ("precision_num", "precision_den", "recall_den")}
    assert pooled == {"precision_num": 2.0, "precision_den": 2.0, "recall_den": 3.0}
    assert metric(env, "chars_sent") == len("NONEBen did it.Cy.") and metric(env, "gold_chunk") == 2.0
    assert env.episode.score.agent_metrics["abstained"] == {
        "worker_1": 1.0, "worker_2": 0.0, "worker_3": 0.0, "worker_4": 1.0, "manager": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "said", "info", "noise"),
    [
        (ROW, ["", "", "", ""], 0.0, 0.0),
        (ROW, ["x", "x", "x", "x"], 0.0, 1.0),
        (ROW, ["", "", "", "It was Ben"], 1.0, 1 / 3),
        (ROW, ["", "Benjamin", "", ""], 0.0, 0.0),
        (YES_ROW, ["", "a well", "", ""], 1.0, 0.0),
        (YES_ROW, ["yes", "none", "yes", ""], 0.0, 2 / 3),
        (NO_ROW, ["", NONE, "None.", ""], 1.0, 0.0),
        (NO_ROW, ["Ben", "", "", ""], 0.75, 0.25),
    ],
)
def test_info_and_noise(row, said, info, noise):
    env = played(row, [*map(message, said), message("")], [""])
    assert (metric(env, "info"), metric(env, "noise")) == pytest.approx((info, noise))


def test_words_after_the_last_turn_that_is_read_do_not_count_and_earlier_ones_do():
    silent = [message("")] * 5
    env = played(ROW, [message("Ben"), *silent[1:]], silent, [""], max_turns=3)
    assert metric(env, "info") == 1.0 and metric(env, "noise") == 0.0
    env = played(ROW, silent, [message("Ben"), *silent[1:]], [""], max_turns=3)
    assert metric(env, "info") == 1.0 and metric(env, "noise") == pytest.approx(1 / 3)
    assert env.game.acting(play.start(env.game, [env.tasks[0]])[0]) == tuple(env.possible_agents)


def test_noise_takes_no_more_than_there_is():
    env = played(ROW, ["<message>x</message>", "", "x", "x", "x"], [""])
    assert env.episode.rewards[-1] == 0.0 and terms(env)["form"] == pytest.approx(0.01)
    env = played(ROW, [message("x")] * 5, [""], weights={"noise": 0.0})
    assert env.episode.rewards[-1] == pytest.approx(0.04)


def test_a_question_without_an_answer_is_answered_by_saying_so():
    told = [message(NONE)] * 4
    for said, worth in ((answer("unanswerable"), 1.0), (answer(""), 1.0), (answer("Ben"), 0.2), (message(""), 0.19)):
        assert played(NO_ROW, [*told, message("")], [said]).episode.rewards[-1] == pytest.approx(worth)
    assert returns(parallel_env(tasks=[NO_ROW]), play.oracle) == [1.0]


def test_without_known_support_the_answer_is_all_that_counts():
    row = {**ROW, "support": []}
    env = played(row, [message("x")] * 5, [answer("Ben")])
    assert terms(env) == pytest.approx({"answer": 0.80, "info": 0.15, "form": 0.05, "noise": 0.0})
    assert metric(env, "gold_chunk") == 0.0


@pytest.mark.parametrize(
    ("last", "success", "kept"),
    [
        (message("done"), 1.0, 1.0),
        (answer("Cy") + answer("Ben"), 1.0, 0.8),
        (answer("Cy"), 0.0, 1.0),
        (answer(""), 0.0, 1.0),
        ("Ben", 1.0, 0.8),
    ],
)
def test_the_last_answer_stands(last, success, kept):
    silent = [message("")] * 4
    env = played(ROW, [*silent, answer("Ben")], [*silent, message("")], [last], max_turns=3)
    assert (metric(env, "success"), metric(env, "format")) == (success, kept)
    assert played(ROW, silent, [message("")]).episode.score.metrics["format"] == 0.8


def test_only_who_is_heard_acts():
    def acting(**kwargs):
        env = parallel_env(tasks=[ROW], **kwargs)
        env.reset(seed=0)
        while env.agents:
            yield env.game.acting(env.episode)
            env.step(dict.fromkeys(env.game.acting(env.episode), ""))

    team = ("worker_1", "worker_2", "worker_3", "worker_4", "manager")
    assert list(acting()) == [team[:-1], team[-1:]]
    assert list(acting(max_turns=1)) == [team[-1:]]
    assert list(acting(max_turns=4)) == [team, team, team, team[-1:]]
    assert list(acting(num_agents=1)) == [team[-1:]] * 2


def test_errors_of_form_are_told_to_who_made_them():
    env = played(ROW, [answer("Ben"), "", message("x" * 500), message("x"), ""], max_turns=3, memory="none")
    shown = env.game.prompts(env.episode)
    assert workers_manager.NO_MESSAGE in shown["worker_1"] and "no tag" in shown["worker_2"]
    assert "500 characters" in shown["worker_3"] and "Your last reply" not in shown["worker_4"]
    assert f"worker_3: {'x' * 400}\n" in shown["manager"] and metric(env, "format") == pytest.approx(0.2)


def test_what_a_cut_chunk_drops_is_counted_and_said_once(caplog):
    chunks.say_dropped.cache_clear()
    with caplog.at_level(logging.WARNING, "comlrl_envs"):
        for _ in range(2):
            env = played(ROW, [message("")] * 5, chunk_chars=10)
    kept = sum(len(text[:10].strip()) for text in ROW["paragraphs"])
    assert metric(env, "chars_read") == kept
    assert metric(env, "dropped_chars") == sum(map(len, ROW["paragraphs"])) - kept
    assert len([entry for entry in caplog.records if "chunk_chars=10" in entry.message]) == 1
    assert returns(parallel_env(tasks=[ROW], chunk_chars=1), play.oracle) == [pytest.approx(1.0)]


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ({"num_agents": 2}, "3 to 9"),
        ({"num_agents": 10}, "3 to 9"),
        ({"chunk_chars": -1}, "chunk_chars=-1"),
        ({"chunk_chars": True}, "chunk_chars=True"),
        ({"message_chars": 3}, ">= 4"),
        ({"chunk_char": 3}, "chunk_chars"),
        ({"weights": {"info": 0.9}}, "weights sum"),
        ({"dataset": "squat"}, "squad"),
    ],
)
def test_bad_settings_are_named(kwargs, told):
    with pytest.raises(OptionError, match=told):
        parallel_env(source="demo", **kwargs)


def test_a_question_without_a_text_is_refused():
    with pytest.raises(TaskError, match="no paragraphs"):
        parallel_env(tasks=[{"question": "Who?", "answers": ["Ben"]}]).reset(seed=0)


# Fixed points


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("turns", [2, 3])
def test_fixed_points_of_the_demo_set(mode, turns):
    env = parallel_env(source="demo", reward_mode=mode, max_turns=turns)
    # Where each turn is paid, what is there early is paid again.
    again = turns if mode == "per_turn" else 1
    silent = returns(env, scripted("silent"))
    form, one_sided = 0.05 * 4 / 5, 0.15 + 0.05 * 4 / 5
    early = (again - 1) * 0.01
    assert silent == pytest.approx([again * form + early] * 64)
    assert returns(env, scripted("oracle_one_sided")) == pytest.approx([again * one_sided + early] * 64)
    assert returns(env, play.oracle) == pytest.approx([1.0 if again == 1 else 0.2 + (turns - 1)] * 64)
    yes = [again * 0.05] * 64
    assert returns(env, lambda game, episode: dict.fromkeys(game.acting(episode), YES)) == pytest.approx(yes)


def test_everybody_passing_on_what_it_reads_costs_noise():
    env = parallel_env(source="demo")
    assert returns(env, scripted("echo_context")) == pytest.approx([0.15 + 0.05 - 0.10] * 64)


@pytest.mark.parametrize("num_agents", [3, 5, 9])
def test_blanking_the_workers_takes_the_answer_and_the_info(num_agents):
    env = parallel_env(source="demo", num_agents=num_agents)

    def blanked(game, episode):
        return {agent: game.scenario.blank(reply) for agent, reply in play.oracle(game, episode).items()}

    assert mean(returns(env, play.oracle)) == 1.0
    assert mean(returns(env, blanked)) == pytest.approx(0.05 * (num_agents - 1) / num_agents)


@pytest.mark.parametrize("split", SPLITS)
def test_who_hears_nothing_cannot_be_worth_much(split):
    rows = kept_things(split)
    env = parallel_env(source="demo", split=split)
    blind = env.game.scenario.weight["answer"] * unheard_f1(rows) + 0.05
    words = {kind: sorted({row["answers"][0] for row in rows if row["kind"] == kind}) for kind in KINDS}
    guesses = {kind: answer(" ".join(listed)) for kind, listed in words.items()}

    def choose(game, episode):
        return {a: guesses[episode.item["kind"]] if a == "manager" else message("") for a in game.acting(episode)}

    assert 0.05 < mean(returns(env, choose)) <= blind + 1e-9
    assert blind < 0.40 and mean(returns(env, play.oracle)) == 1.0


def test_demo_splits_share_no_text():
    texts = {
        split: {p["sentences"][0] for row in kept_things(split) for p in row["paragraphs"]}
        for split in ("train", "eval")
    }
    assert not texts["train"] & texts["eval"]
    assert [len(kept_things(split)) for split in SPLITS] == [64, 32]
    for row in (*kept_things("train"), *kept_things("eval")):
        holding = [p["sentences"][0] for p in row["paragraphs"] if row["answers"][0] in p["sentences"][0]]
        assert holding == [row["paragraphs"][row["support"][0][0]]["sentences"][0]]


# Real sets


@pytest.mark.needs_data(SQUAD)
@pytest.mark.parametrize("split", SPLITS)
def test_articles_of_squad(split, data_dir):
    env = parallel_env(data_dir=str(data_dir), split=f"{split}[:120]")
    totals = returns(env, play.oracle)
    assert min(totals) > 0.99
    assert returns(env, scripted("silent")) == pytest.approx([0.04] * len(totals))
    assert returns(env, scripted("oracle_one_sided")) == pytest.approx([0.19] * len(totals))
    for task in (env.tasks[place] for place in range(0, 120, 20)):
        state = env.game.scenario.begin(task.fields, rng(0))
        sizes = [chunks.size(chunk) for chunk in state.chunks]
        assert max(sizes) - min(sizes) < 4000 and sum(map(len, state.chunks)) == len(task.fields["paragraphs"])
        assert all(any(squad(a) in squad(text) for a in state.answers) for facts in state.facts for text in facts)


@pytest.mark.needs_data(MUSIQUE)
@pytest.mark.parametrize("turns", [2, 3])
def test_paragraphs_of_musique(turns, data_dir):
    env = parallel_env(dataset="musique", data_dir=str(data_dir), max_turns=turns)
    assert returns(env, play.oracle) == pytest.approx([1.0] * len(env.tasks))
    assert returns(env, scripted("silent")) == pytest.approx([0.04] * len(env.tasks))
    assert returns(env, scripted("oracle_one_sided")) == pytest.approx([0.19] * len(env.tasks))


# Conformance


def test_states_come_back_from_json():
    env = played(ROW, [message("Ben")] * 5)
    state = env.episode.state
    again = State.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state and again.facts == state.facts == ((), ("Ben dug a well.",), (), ())


VARIANTS = {
    "peers+format": {"feedback": "peers+format", "max_turns": 3, "reward_mode": "per_turn"},
    "oracle": {"feedback": "oracle", "max_turns": 3, "reward_mode": "delta"},
    "alone": {"num_agents": 1},
    "three": {"num_agents": 3, "reward_mode": "per_turn"},
    "seven": {"num_agents": 7},
    "one_turn": {"max_turns": 1},
}
GOLD = ("answers", "kind")


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_keep_every_promise(variant, check):
    kwargs = {"source": "demo", **VARIANTS[variant]}
    few = None if check == "channel" else 8
    subject = Subject("comlrl_envs.qa.workers_manager:parallel_env", kwargs, gold=GOLD, tasks=few, replies=60)
    note = run_check(check, subject)
    if check == "channel" and subject.env().game.scenario.channel:
        # It asks for nothing: its workers know the question.
        assert note == "no channel from ['manager']: blank changes nothing that teammates are shown of them"
    elif check not in ("channel", "golden", "supersuit"):
        assert note is None, note


@pytest.mark.parametrize("message", ["none", ".NoNe?!;;;", "!!?!!!", "NONE."])
def test_an_abstention_tells_nothing_however_it_is_written(message):
    env = parallel_env(tasks=[ROW])
    env.reset(seed=0)
    seen, *_ = env.step(dict.fromkeys(env.possible_agents, f"<message>{message}</message>"))
    assert seen["manager"].count(": NONE") == len(env.possible_agents) - 1 and message not in seen["manager"].split(":")
