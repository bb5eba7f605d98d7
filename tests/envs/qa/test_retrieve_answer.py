"""A search by three: what it is worth, fixed points, reward modes, the corpus, and what every environment keeps."""

import json
from dataclasses import replace

import pytest

from comlrl_envs.errors import OptionError, TaskError
from comlrl_envs.game import TextGame
from comlrl_envs.qa.bm25 import Corpus
from comlrl_envs.qa.demo.invented_things import invented_things
from comlrl_envs.qa.records import Paragraph, from_row
from comlrl_envs.qa.retrieval_roles import ANSWERER, REWRITER, ROLES, SELECTOR
from comlrl_envs.qa.retrieve_answer import RetrieveAnswer, parallel_env
from comlrl_envs.scenario import State
from comlrl_envs.tasks import Task
from comlrl_envs.testing import CHECKS, Subject, run_check
from comlrl_envs.testing.proof import find_excess

from .players import always, blanked, mean_metric, mean_reward, oracle, play, real_tasks, scripted
from .searches import ROW, demo, game, number, start, step

pytest.importorskip("bm25s")

SCORERS = {"hotpotqa": "hotpotqa", "musique": "musique", "2wikimultihopqa": "twowiki"}
SETS = [
    pytest.param("hotpotqa", 0.745, marks=pytest.mark.needs_data("hotpotqa")),
    pytest.param("musique", 0.47, marks=pytest.mark.needs_data("musique")),
    pytest.param("2wikimultihopqa", 0.7288, marks=[pytest.mark.needs_data("2wikimultihopqa"), pytest.mark.slow]),
]


def test_the_worth_of_a_team_by_the_formula():
    rules, episode = start(max_turns=2)
    mira = number(episode, "Mira")
    episode = step(rules, episode, selector=f"<select>D{mira}</select>", rewriter=f"<query>{'x' * 301}</query>")
    ended = step(rules, episode, answerer="<answer>the red attic</answer>", rewriter="no tags")
    f1 = 2 / 3
    expected = {"answer": 0.80 * f1, "recall": 0.15 / 2, "form": 0.05 * 2 / 3, "breaks": -0.05, "clip": 0.0}
    assert ended.score.terms == pytest.approx(expected)
    metrics = ended.score.metrics
    assert (metrics["selection_recall"], metrics["selection_precision"]) == (0.5, 1.0)
    assert (metrics["queries"], metrics["breaks"], metrics["answer_em"], metrics["overlooked"]) == (1.0, 1.0, 0.0, 0.0)


def test_a_penalty_never_takes_more_than_there_is():
    (ended,) = play(game(demo()), demo()[:1], always("<query>a</query>" * 5 + "<select>x</select>"))
    assert (
        ended.reward == 0.0
        and ended.score.metrics["breaks"] == 4
        and ended.score.terms["breaks"] == pytest.approx(-0.05 / 3)
    )


def test_a_batch_plays_as_each_alone():
    rules, tasks = game(demo()), demo()
    episodes = rules.start_many(tasks, range(len(tasks)))
    moves = [
        (episode, oracle(rules, episode)) for episode in rules.step_many([(e, oracle(rules, e)) for e in episodes])
    ]
    assert rules.step_many(moves) == [rules.step_many([move])[0] for move in moves]


def test_fixed_points_of_the_demo_set():
    for split in ("train", "eval"):
        tasks = demo(split)
        rules = game(tasks)
        for name in ("silent", "always_yes", "echo_context"):
            assert mean_reward(play(rules, tasks, scripted(name))) == pytest.approx(0.05)
        # Who searches and selects, and is not told what to search for, selects the first of two documents.
        assert mean_reward(play(rules, tasks, scripted("oracle_one_sided"))) == pytest.approx(0.05 + 0.15 / 2)
        silent = play(rules, tasks, scripted("silent"))
        assert mean_metric(silent, "retrieval_recall") == 0.5
        ended = play(rules, tasks, oracle)
        assert [episode.reward for episode in ended] == pytest.approx([1.0] * len(tasks))
        assert mean_metric(ended, "retrieval_recall") == mean_metric(ended, "selection_precision") == 1.0
    assert 0.05 < mean_reward(play(rules, tasks, scripted("random_select"))) < 0.125


@pytest.mark.parametrize("schedule", ["pipelined", "sequential"])
def test_silence_costs_the_oracle(schedule):
    tasks = demo()
    rules = game(tasks, schedule=schedule)
    values = [
        mean_reward(play(rules, tasks, blanked(*agents))) for agents in ([REWRITER], [SELECTOR], [ANSWERER], ROLES)
    ]
    assert values == pytest.approx([0.125, 0.05, 0.125, 0.05])


@pytest.mark.parametrize(("name", "found"), SETS)
def test_fixed_points_of_real_sets(name, found, data_dir):
    tasks = real_tasks(data_dir, name, SCORERS[name])
    rules = game(tasks)
    ended, silent = play(rules, tasks, oracle), play(rules, tasks, scripted("silent"))
    team, floor = mean_reward(ended), mean_reward(silent)
    assert team == pytest.approx(1.0) and floor == pytest.approx(0.05)
    assert mean_metric(silent, "retrieval_recall") == pytest.approx(found, abs=1e-4)
    one_sided = mean_reward(play(rules, tasks, scripted("oracle_one_sided")))
    assert team > one_sided > floor and one_sided == pytest.approx(0.05 + 0.15 * found, abs=1e-4)
    for agent in ROLES:
        assert team - mean_reward(play(rules, tasks, blanked(agent))) >= 0.2
    assert mean_reward(play(rules, tasks, scripted("echo_context"))) <= floor + 0.07
    alone = game(tasks, num_agents=1, max_turns=1)
    assert mean_reward(play(alone, tasks, oracle)) < 0.7


@pytest.mark.needs_data("hotpotqa")
def test_cheap_answers_on_hotpotqa(data_dir):
    tasks = real_tasks(data_dir, "hotpotqa", "hotpotqa")
    ended = play(game(tasks), tasks, scripted("always_yes"))
    assert mean_metric(ended, "answer_f1") == pytest.approx(0.02)
    assert mean_reward(ended) == pytest.approx(0.80 * 0.02 + 0.05)


@pytest.mark.parametrize("settings", [{}, {"schedule": "sequential"}, {"max_turns": 6}, {"hits": 1, "first_hits": 1}])
def test_reward_modes_pay_the_same_worth(settings):
    tasks = demo()[:8]
    at_end, per_turn, changes = (
        play(game(demo(), reward_mode=mode, **settings), tasks, oracle) for mode in ("terminal", "per_turn", "delta")
    )
    for one, other, third in zip(at_end, per_turn, changes, strict=True):
        assert one.rewards == (*[0.0] * (len(one.rewards) - 1), other.rewards[-1])
        assert sum(third.rewards) == pytest.approx(other.rewards[-1]) and len(set(other.rewards)) > 1


def test_changes_sum_to_the_worth_at_the_end():
    texts = ["<answer>no</answer><query>a</query>", "<select>D1, x</select>", "hm", "<answer>word</answer>" * 40]
    at_end, changes = (
        play(game(demo(), reward_mode=mode), demo(), lambda g, e: dict.fromkeys(ROLES, texts[e.turn]))
        for mode in ("terminal", "delta")
    )
    for one, other in zip(at_end, changes, strict=True):
        assert sum(other.rewards) == pytest.approx(one.reward) and any(change < 0 for change in other.rewards)


SMALL = {"queries": 1, "query_chars": 20, "selected_docs": 2, "candidates": 1, "first_hits": 1, "hits": 1}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["terminal", "per_turn", "delta"])
@pytest.mark.parametrize("settings", [{}, {"schedule": "sequential"}, {"num_agents": 1}, {**SMALL, "max_turns": 7}])
def test_no_scripted_policy_earns_more_than_is_reachable(mode, settings):
    rules = game(demo(), reward_mode=mode, **settings)
    own = {name: scripted(name) for name in ("silent", "always_yes", "copy_first", "random_select", "oracle_one_sided")}
    assert find_excess(rules, demo(), own) is None


def test_what_the_search_does_not_find_cannot_be_earned():
    """Only one turn is for searching here, with one short query."""
    tasks = demo()
    rules = game(tasks, **SMALL, max_turns=4)
    ended = play(rules, tasks, oracle)
    for episode in ended:
        found = episode.score.metrics["selection_recall"]
        assert episode.reward == pytest.approx(0.05 + 0.15 * found + 0.80 * (found == 1.0))
    poor = play(game(tasks, query_chars=2), tasks, oracle)
    assert mean_reward(poor) < 0.3


def test_a_state_holds_no_text_of_the_corpus_and_goes_on_from_json():
    rules, tasks = game(demo()), demo()
    for task in tasks[:8]:
        (episode,) = rules.start_many([task], [3])
        while not episode.done:
            written = json.dumps(episode.state.to_json())
            assert len(written) < 2500 and " keeps a " not in written and " lost the " not in written
            revived = replace(episode, state=State.from_json(json.loads(written)))
            assert revived == episode
            move = {**oracle(rules, episode), REWRITER: "<query>red kitchen</query>"}
            one, other = rules.step_many([(episode, move), (revived, move)])
            assert one == other
            episode = one


@pytest.mark.needs_data("musique")
def test_a_state_stays_small_on_long_paragraphs(data_dir):
    tasks = real_tasks(data_dir, "musique", "musique")[:20]
    ended = play(game(tasks), tasks, oracle)
    assert max(len(json.dumps(episode.state.to_json())) for episode in ended) < 4000


def test_a_corpus_is_made_of_all_loaded_tasks_or_given():
    env = parallel_env(source="demo", split="train[:10]")
    first = [from_row(row) for row in invented_things("train")[:10]]
    assert env.game.scenario.corpus == Corpus.of_records(first)
    own = parallel_env(tasks=[dict(ROW)])
    assert len(own.game.scenario.corpus) == 5
    stream = parallel_env(tasks=lambda: iter([dict(ROW)]))
    assert stream.game.scenario.corpus == own.game.scenario.corpus
    larger = Corpus([*Corpus.of_records(first), Paragraph("Extra", ("Nothing.",))])
    given = parallel_env(source="demo", split="train[:3]", corpus=larger)
    assert given.game.scenario.corpus is larger
    given.reset(seed=0)


def test_a_question_whose_support_cannot_be_found_is_refused_by_name():
    small = Corpus([Paragraph("Mira", ("Mira is tall.", " Mira lost the kite."))])
    env = parallel_env(tasks=[dict(ROW)], corpus=small)
    with pytest.raises(TaskError, match=r"'kite'.*supporting paragraph 1 \('Tom'\).*corpus of 1 paragraphs"):
        env.reset(seed=0)
    with pytest.raises(TaskError, match="not in the corpus"):
        parallel_env(source="demo").reset(seed=0, options={"item": dict(ROW)})
    with pytest.raises(OptionError, match=r"corpus is a list; expected a comlrl_envs\.qa\.bm25\.Corpus"):
        parallel_env(source="demo", corpus=[])
    with pytest.raises(OptionError, match="no corpus"):
        TextGame(RetrieveAnswer()).start_many([Task("kite", ROW)], [0])


def test_a_question_without_labels_pays_the_answer():
    row = {**ROW, "support": []}
    rules, episode = start(row, max_turns=1)
    right = step(rules, episode, answerer="<answer>attic</answer>", selector="<select>D1</select>")
    assert right.reward == pytest.approx(1.0)
    half = step(rules, episode, answerer="<answer>the red attic</answer>")
    assert half.reward == pytest.approx(0.95 * 2 / 3 + 0.05)
    assert half.score.metrics["selection_recall"] == half.score.metrics["retrieval_recall"] == 0.0
    assert mean_reward(play(rules, [Task("kite", row)], oracle)) == pytest.approx(1.0)


def test_one_alone_reads_the_hits_of_the_question_and_votes_with_itself():
    rules, episode = start(num_agents=1, max_turns=1, selected_docs=2)
    assert rules.agents == (ANSWERER,) and rules.prompts(episode)[ANSWERER].count("[D") == 2
    assert not rules.scenario.channel and rules.scenario.blank("<query>a</query>") == "<query>a</query>"
    replies = ["<answer>hall</answer>", "<answer>The attic</answer>", "<answer>attic.</answer>", "none"]
    assert rules.scenario.majority(episode.state, replies) in replies[1:3]
    tasks = demo()
    alone = play(game(tasks, num_agents=1, max_turns=1), tasks, oracle)
    assert mean_reward(alone) == pytest.approx(0.05 + 0.15 / 2) and mean_metric(alone, "retrieval_recall") == 0.5


def test_an_answer_that_stood_in_a_selected_document_was_overlooked():
    rules, episode = start(max_turns=2, first_hits=5)
    episode = step(rules, episode, selector=f"<select>D{number(episode, 'Tom')}</select>")
    for answer, overlooked in (("hall", 1.0), ("attic", 0.0), ("", 1.0)):
        ended = step(rules, episode, answerer=f"<answer>{answer}</answer>")
        assert ended.score.metrics["overlooked"] == overlooked


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"schedule": "sequental"}, "Did you mean 'sequential'"),
        ({"num_agents": 2}, "expected 3, or 1"),
        ({"num_agents": True}, "expected 3, or 1"),
        ({"queries": 0}, "queries=0; expected a positive integer"),
        ({"first_hits": 13}, "at most candidates=12"),
        ({"dataset": "hotpot"}, "Did you mean 'hotpotqa'"),
        ({"select_docs": 3}, "Did you mean 'selected_docs'"),
    ],
)
def test_bad_settings_say_what_is_meant(settings, told):
    with pytest.raises(OptionError, match=told):
        parallel_env(source="demo", **settings)


def test_the_demo_set_needs_a_second_search():
    words = {}
    for split, count in (("train", 64), ("eval", 32)):
        rows = invented_things(split)
        assert len(rows) == count == len({row["id"] for row in rows}) and {len(r["paragraphs"]) for r in rows} == {
            4,
            5,
            6,
        }
        corpus = Corpus.of_records(from_row(row) for row in rows)
        texts = [corpus[pid].text for pid in range(len(corpus))]
        words[split] = {word for text in texts for word in text.rstrip(".").split()}
        for row in rows:
            first, second = (row["paragraphs"][place]["sentences"][0] for place, _ in row["support"])
            thing = first.rstrip(".").split()[-1]
            # In all the corpus one tells of the loser, and one says who keeps the thing.
            loser = first.split()[0]
            assert [text for text in texts if loser in text.rstrip(".").split()] == [first]
            assert [text for text in texts if f" {thing} " in text] == [second]
            assert not {loser, thing} & set(second.split()) - {thing} and thing not in row["question"]
    plain = {"lost", "the", "keeps", "a", "in"}
    assert all(word.islower() for word in words["train"] & words["eval"])
    assert all(len(word) > 2 for word in words["train"] ^ words["eval"] if word not in plain)


VARIANTS = {
    "sequential": {"schedule": "sequential", "feedback": "peers"},
    "delta": {"reward_mode": "delta", "feedback": "oracle", "max_turns": 5},
    "alone": {"num_agents": 1, "max_turns": 2},
}
NOTED = {"golden", "supersuit"}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", VARIANTS)
def test_it_keeps_every_promise(name, check):
    # One corpus, so that a row begins as it does among all others when it is played by itself.
    records = (from_row(row) for split in ("train", "eval") for row in invented_things(split))
    kwargs = {"source": "demo", "corpus": Corpus.of_records(records), **VARIANTS[name]}
    make = "comlrl_envs.qa.retrieve_answer:parallel_env"
    note = run_check(check, Subject(make, kwargs, gold=("answers",), tasks=None if check == "channel" else 24))
    assert note is None or check in NOTED or (check, name) == ("channel", "alone"), note


def test_an_episode_stays_with_its_corpus():
    train, held_out = (parallel_env(source="demo", split=split) for split in ("train", "eval"))
    train.reset(seed=0)
    state = train.get_state()
    with pytest.raises(OptionError, match="another corpus"):
        held_out.set_state(state)
        held_out.step(dict.fromkeys(held_out.possible_agents, ""))
