"""The games of a pair of texts as they are played: prompts, feedback, rows, demo sets, the reachable maximum."""

import dataclasses
import itertools
import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

import comlrl_envs
from comlrl_envs import OptionError, TaskError
from comlrl_envs.game import TextGame
from comlrl_envs.scenario import with_preset
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import TaskSet
from comlrl_envs.writing import composing, levels, tldr
from comlrl_envs.writing.demo import abstracts, posts
from comlrl_envs.writing.pair import DELIMITER, Draft, split_reply

from .rows import IDS, PRESETS, demo_items, real_items

SHORT = {"writing/tldr": {}, "writing/arxiv": {"min_words": 8}}
BEES = "Bees visit the garden each morning, and our neighbour sells their honey at the market near the old bridge."


def item(name, text=BEES):
    return {IDS[name][1].field: text}


def played(name, texts, **kwargs):
    """The environment after one joint action, and what each agent is shown then without memory of its own."""
    env = comlrl_envs.make(name, source="demo", memory="none", **{"max_turns": 2, **SHORT[name], **kwargs})
    env.reset(options={"item": item(name)})
    observations, *_ = env.step(dict(zip(env.agents, texts, strict=True)))
    return env, observations


@pytest.mark.parametrize("name", IDS)
def test_briefs_hold_the_source_and_differ_by_role(name):
    env = comlrl_envs.make(name, source="demo")
    first, second = env.reset(options={"item": item(name)})[0].values()
    assert first != second and BEES in first and BEES in second
    assert all(len(brief.splitlines()) >= 5 for brief in (first, second))
    assert "teammate" in first if name == "writing/arxiv" else "teammate" not in first
    single = comlrl_envs.make(name, source="demo", num_agents=1)
    (brief,) = single.reset(options={"item": item(name)})[0].values()
    assert single.possible_agents == ["writer"] and DELIMITER in brief and "'Paragraph 2:'" in brief


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("feedback", ["plain", "levels", "peers"])
@pytest.mark.parametrize("reward", ["published", "strict"])
def test_every_mode_plays_one_to_four_turns(name, feedback, reward):
    for turns in (1, 2, 4):
        env = comlrl_envs.make(name, source="demo", feedback=feedback, reward=reward, max_turns=turns)
        first, _ = env.reset(seed=3)
        shown = [first]
        while env.agents:
            observations, rewards, *_ = env.step(dict.fromkeys(env.agents, "Some words about it."))
            assert len(set(rewards.values())) == 1
            shown.append(observations)
        assert len(shown) == turns + 1 and all(first[agent] in later[agent] for later in shown for agent in first)


@pytest.mark.parametrize("name", IDS)
def test_plain_feedback_asks_to_try_again_and_tells_nothing(name):
    env, observations = played(name, ["One text.", "Another text."])
    for agent, shown in observations.items():
        assert shown.endswith(IDS[name][1].retry) and "text." not in shown.replace(env.episode.briefs[0], "")
        assert agent in env.possible_agents


@pytest.mark.parametrize("name", IDS)
def test_peers_feedback_shows_the_other_text_only(name):
    env, observations = played(name, ["My own words here.", "The other words there."], feedback="peers")
    one, two = env.possible_agents
    assert f"the {two}, wrote" in observations[one] and "The other words there." in observations[one]
    assert "My own words here." not in observations[one] and "My own words here." in observations[two]


def test_levels_feedback_says_which_level_failed_on_which_side():
    eight = "Bees visit the garden and sell some honey."
    _, seen = played("writing/tldr", ["Bees.", f"{eight} {eight}"], feedback="levels")
    assert (
        "the summarizer has 1 words (too short), the elaborator has 16 words (in range); 8 to 256" in seen["summarizer"]
    )
    assert "17.00 times as long as the summarizer (too much, so far off that the level fails)" in seen["elaborator"]
    assert (
        "(too much); 1.6 to 3.2"
        in played("writing/tldr", [eight, (eight + " ") * 4], feedback="levels")[1]["summarizer"]
    )
    _, seen = played("writing/tldr", [eight, eight], feedback="levels")
    assert "1.00 times as rich in different words as the summarizer (not enough, so far" in seen["elaborator"]
    assert "Your team earned 0.50 of 3 points (0.50 + 0.00 + 0.00 + 0.00)." in seen["elaborator"]
    assert "shows 1 of the 12 kinds of transitions (12 earn" in seen["elaborator"]
    _, seen = played("writing/arxiv", ["word " * 300, eight], feedback="levels")
    assert "the background has 300 words (too long)" in seen["method"] and "1 to 1.3 is asked for" in seen["method"]


def test_levels_feedback_of_the_strict_preset_tells_grounding_and_what_does_not_count():
    texts = ["Bees visit the garden. They sell", "Snow falls on mountains in winter."]
    _, seen = played("writing/tldr", texts, feedback="levels", reward="strict")
    assert "6 words (too short, but only 4 count: the others are unfinished" in seen["summarizer"].replace(
        "), but", ", but"
    )
    assert "100% of the summarizer's content words are the source's, 3 different ones (2 wanted)" in seen["summarizer"]
    assert "0% of the elaborator's content words" in seen["summarizer"] and "(4 earn the most)" in seen["summarizer"]


def test_feedback_of_a_single_writer_names_the_paragraphs():
    _, seen = played("writing/tldr", [f"One.{DELIMITER}Two words."], feedback="levels", num_agents=1)
    assert "the first paragraph has 1 words (too short), the second paragraph has 2 words" in seen["writer"]


plain_text = st.text(string.ascii_letters + " .\n:[]12", max_size=200)


@given(plain_text, plain_text)
def test_a_reply_is_parted_at_the_delimiter_first(first, second):
    parts = split_reply(f"{first}{DELIMITER}{second}")
    if "aragraph" not in (first + second):
        assert parts == (first.strip(), second.strip())
    assert parts == split_reply(f"Paragraph 1: {parts[0]}\n{DELIMITER}\nPARAGRAPH 2 :{parts[1]}")


words_only = st.text(string.ascii_lowercase + " \n.", max_size=200)


@given(words_only, words_only)
def test_or_else_at_the_label(first, second):
    assert split_reply(f"Paragraph 1:{first}\nparagraph 2: {second}") == (first.strip(), second.strip())


@given(st.text(max_size=300))
def test_or_else_at_one_third(text):
    if DELIMITER in text or "aragraph" in text.lower():
        return
    cut = len(text) // 3
    assert split_reply(text) == (text[:cut].strip(), text[cut:].strip())


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_single_writer_earns_what_the_pair_earns(name, preset):
    _, scenario = IDS[name]
    pair, single = scenario(reward=preset, **SHORT[name]), scenario(reward=preset, num_agents=1, **SHORT[name])
    state = pair.begin(item(name), rng(0))
    texts = pair.oracle(state)
    both = pair.advance(state, texts).score
    alone = single.advance(state, single.oracle(state)).score
    assert alone.terms == both.terms and alone.metrics == both.metrics
    assert alone.agent_metrics["words"]["writer"] == sum(both.agent_metrics["words"].values())
    assert alone.agent_metrics["in_range"]["writer"] == 1.0


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.parametrize("num_agents", [1, 2])
def test_the_oracle_earns_exactly_what_is_reachable_on_all_demo_rows(name, preset, num_agents):
    _, scenario = IDS[name]
    for kwargs in ({}, {"min_words": 8}):
        reaches_the_top(scenario(reward=preset, num_agents=num_agents, **kwargs), demo_items(name, "train"))
        reaches_the_top(scenario(reward=preset, num_agents=num_agents, **kwargs), demo_items(name, "eval"))


@pytest.mark.slow
@pytest.mark.needs_data("tldr/tldr_200.jsonl", "scitldr/dev.jsonl")
@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.parametrize("kwargs", [{}, {"min_words": 8}], ids=["default", "eight"])
def test_the_oracle_earns_exactly_what_is_reachable_on_all_real_rows(name, preset, kwargs, data_dir):
    items = real_items(name, data_dir)
    assert len(items) == 819
    reaches_the_top(IDS[name][1](reward=preset, **kwargs), items)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.parametrize(
    "limits",
    [(1, 40), (8, 40), (8, 64), (40, 40), (64, 256), (100, 100), (128, 200), (200, 256), (256, 256), (1, 1000)],
)
def test_it_does_within_all_limits_on_words(name, preset, limits):
    items = [*demo_items(name, "train")[::16], *(item(name, text) for text in (BEES, "Bees.", "Bees like honey."))]
    reaches_the_top(IDS[name][1](reward=preset, min_words=limits[0], max_words=limits[1]), items)


def reaches_the_top(scenario, items, top=3.0):
    for row in items:
        state = scenario.begin(row, rng(0))
        step = scenario.advance(state, scenario.oracle(state))
        expected = top if scenario.reward == "strict" else levels.HIGHEST
        assert sum(step.score.terms.values()) == scenario.reachable(state) == expected, row
        assert step.score.metrics["success"] == 1.0
        for words in step.score.agent_metrics["words"].values():
            assert scenario.min_words <= words <= 2 * scenario.max_words


@pytest.mark.parametrize("min_words", [1, 8, 128])
@pytest.mark.parametrize("name", IDS)
def test_a_source_without_content_words_reaches_a_tenth(name, min_words):
    scenario = IDS[name][1](reward="strict", min_words=min_words)
    reaches_the_top(scenario, [item(name, "It is what it is.")], top=0.1)


@pytest.mark.parametrize("name", IDS)
def test_measures_agree_with_each_other(name):
    env, _ = played(name, [BEES, f"However, {BEES} {BEES} So it is."])
    score = env.episode.score
    first, second = (score.agent_metrics["characters"][agent] for agent in env.possible_agents)
    assert score.metrics["length_ratio"] == second / first
    assert score.metrics["gated_total"] == env.episode.reward <= score.metrics["ungated_total"]
    assert set(score.metrics) == set(env.game.metric_names)
    assert score.agent_metrics["grounded_share"][env.possible_agents[0]] == 1.0


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@pytest.mark.parametrize("kwargs", [{}, {"min_words": 8}, {"num_agents": 1}], ids=str)
@pytest.mark.parametrize("split", ["train", "eval"])
def test_floor_policies_stay_below_their_bounds(name, preset, kwargs, split):
    scenario = IDS[name][1](reward=preset, **kwargs)
    game = TextGame(scenario)
    tasks = TaskSet(demo_items(name, split))
    episodes = game.start_many(list(tasks), [0] * len(tasks))
    draws = rng(0, name, split)

    def junk():
        return "".join(chr(c) for c in draws.integers(32, 127, draws.integers(0, 65)))

    policies = {
        "empty": lambda episode: dict.fromkeys(game.agents, ""),
        "echo": game.prompts,
        "random": lambda episode: {agent: junk() for agent in game.agents},
    }
    assert scenario.floors.keys() == policies.keys()
    for policy, act in policies.items():
        moves = [(episode, act(episode)) for episode in episodes for _ in range(5 if policy == "random" else 1)]
        earned = [after.reward for after in game.step_many(moves)]
        assert sum(earned) / len(earned) <= scenario.floors[policy] <= 3.0


@pytest.mark.parametrize("name", IDS)
def test_rows_without_a_usable_text_are_refused(name):
    field = IDS[name][1].field
    for bad, said in (
        ({}, f"no field '{field}'"),
        ({field: ""}, "is empty"),
        ({field: " \n"}, "is empty"),
        ({field: []}, "is empty"),
        ({field: None}, "NoneType"),
        ({field: 3}, "int"),
        ({field: ["a", 3]}, "list"),
        ({"source": []}, "is empty"),
    ):
        with pytest.raises(TaskError, match=re.escape(said)):
            comlrl_envs.make(name, tasks=[bad])


@pytest.mark.parametrize("name", IDS)
def test_lists_of_sentences_are_joined_and_gold_is_dropped(name):
    module, scenario = IDS[name]
    row = {"id": "x", "source": ["One bee. ", "Two bees."], "completion": "GOLD", "target": ["GOLD"], "title": "T"}
    parsed = module.from_row(row)
    assert parsed[scenario.field] == "One bee. Two bees." and parsed["id"] == "x" and "target" not in parsed
    assert module.from_row(parsed) == parsed
    assert module.from_row({scenario.field: ["One bee.", "Two bees."]}) == {scenario.field: "One bee. Two bees."}
    env = comlrl_envs.make(name, tasks=[{**row, "completion": "GOLD"}], prompts=None)
    shown, _ = env.reset(seed=0)
    assert not any("GOLD" in text for text in shown.values())


def test_a_posts_completion_is_dropped_and_its_labels_are_no_words_of_it():
    assert tldr.from_row({"prompt": "p q", "completion": "GOLD"}) == {"prompt": "p q"}
    told = tldr.story("SUBREDDIT: r/secret\n\nTITLE: My title\n\nPOST: A body: TITLE: here\n\nTL;DR:")
    assert "secret" not in told and "TL;DR" not in told and "My title" in told and "A body: TITLE: here" in told


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"reward": "publshed"}, "Did you mean 'published'"),
        ({"feedback": "peer"}, "Did you mean 'peers'"),
        ({"min_words": 0}, "min_words=0"),
        ({"max_words": 39}, "at least 40"),
        ({"min_words": 300}, "no less than min_words"),
        ({"num_agents": 3}, "num_agents=3"),
        ({"num_agents": True}, "num_agents=True"),
        ({"num_agents": 1, "feedback": "peers"}, "leaves no partner"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
@pytest.mark.parametrize("name", IDS)
def test_bad_settings_are_refused(name, kwargs, said):
    with pytest.raises(OptionError, match=said):
        comlrl_envs.make(name, source="demo", **kwargs)


def test_presets_of_the_two_ids():
    assert comlrl_envs.make("writing/arxiv", source="demo", reward="published_b").game.scenario.reward == "published_b"
    with pytest.raises(OptionError, match="published_b"):
        comlrl_envs.make("writing/tldr", source="demo", reward="published_b")
    assert with_preset(tldr.Tldr(), "strict") == tldr.Tldr(reward="strict")


def sentences(text):
    return {part.strip() for part in re.split(r"(?<=[.!?])\s+|\n", text) if part.strip()}


@pytest.mark.parametrize("name", IDS)
def test_demo_splits_are_large_and_share_no_sentence(name):
    field = IDS[name][1].field
    train, held_out = demo_items(name, "train"), demo_items(name, "eval")
    assert len(train) >= 60 and len(held_out) >= 30
    told = [[tldr.story(row[field]) for row in rows] for rows in (train, held_out)]
    assert len(set(itertools.chain(*told))) == len(train) + len(held_out)
    assert not set.union(*map(sentences, told[0])) & set.union(*map(sentences, told[1]))
    assert all(40 <= len(text.split()) <= 90 for text in itertools.chain(*told))
    assert not any("{" in text or "}" in text or "  " in text for text in itertools.chain(*told))
    assert len({row["id"] for row in train}) == len(train)


def test_every_gap_of_a_demo_frame_is_used_and_filled():
    for frame in (*posts.TRAIN, *posts.EVAL, *abstracts.TRAIN, *abstracts.EVAL):
        gaps = set(re.findall(r"{(\d)}", frame.head + frame.body))
        for line in frame.parts.strip().splitlines():
            parts = [part.strip() for part in line.split("|")]
            assert all(parts) and {str(n) for n in range(len(parts))} == gaps, (frame.name, line)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_scored_and_the_state_is_json(name, preset, first, second):
    scenario = IDS[name][1](reward=preset, max_turns=2, feedback="levels", min_words=1)
    state = scenario.begin(item(name), rng(0))
    step = scenario.advance(state, dict(zip(scenario.agents, (first, second), strict=True)))
    assert 0.0 <= sum(step.score.terms.values()) <= 3.0
    assert Draft.from_json(json.loads(json.dumps(step.state.to_json()))) == step.state
    assert scenario.advance(state, dict(zip(scenario.agents, (first, second), strict=True))) == step


def test_the_builder_says_so_when_nothing_reaches_the_wish():
    rules = dataclasses.replace(tldr.Tldr().rules, min_words=40, max_words=40)
    assert composing.best_pair(BEES, rules, lambda first, second: 1.0, 3.0, strict=True) is None
    assert composing.compose(["bee"], 4, composing.Style(composing.PLAIN_OPENERS, ("and",)), set()) is None
