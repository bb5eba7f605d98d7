"""Every row of the official scorers' outputs, exactly."""

import functools
import json

import pytest

from comlrl_envs.qa import answers, normalize, support
from comlrl_envs.qa.drop import drop, drop_script, spans
from comlrl_envs.qa.numbers import official_correct, official_extract
from comlrl_envs.qa.scorers import SCORERS

ROWS = "qa_official_scores/official_qa_scores_dev.jsonl"
FIELDS = {"em": "em", "f1": "f1", "p": "precision", "r": "recall", "prec": "precision", "recall": "recall"}
EXACT = {"rel": 0, "abs": 1e-9}
pytestmark = pytest.mark.needs_data(ROWS)


@pytest.fixture
def rows(data_dir):
    return rows_of(data_dir / ROWS)


@functools.cache
def rows_of(path):
    found = {}
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        found.setdefault(row["kind"], []).append(row)
    assert sum(map(len, found.values())) == 1768
    return found


def agrees(score, official, prefix=""):
    for name, value in official.items():
        if name in FIELDS and not prefix:
            assert getattr(score, FIELDS[name]) == pytest.approx(value, **EXACT), name
        elif prefix and name.startswith(prefix):
            assert getattr(score, FIELDS[name.removeprefix(prefix)]) == pytest.approx(value, **EXACT), name


@pytest.mark.parametrize("name", ["squad_v1", "squad_v2", "hotpotqa", "twowiki", "musique", "triviaqa", "drop"])
def test_answers(rows, name):
    assert len(rows["answer"]) == 1392
    for row in rows["answer"]:
        official = row["scores"][name]
        if official is None:
            with pytest.raises(ValueError, match="no gold answer"):
                SCORERS[name](row["pred"], row["golds"])
            continue
        agrees(SCORERS[name](row["pred"], row["golds"]), official)


def test_the_whole_script_of_drop(rows):
    for row in rows["answer"]:
        official = row["scores"]["drop_script"]
        if official is not None:
            assert drop_script(row["pred"], row["golds"]) == pytest.approx((official["em"], official["f1"]), **EXACT)


@pytest.mark.parametrize("name", ["squad", "triviaqa", "drop"])
def test_normal_forms(rows, name):
    normal_form = {"squad": normalize.squad, "triviaqa": normalize.triviaqa, "drop": normalize.drop}[name]
    given = [row for row in rows["answer"] if "norm_pred" in row]
    assert len(given) == 1329
    for row in given:
        assert normal_form(row["pred"]) == row["norm_pred"][name]


def test_numbers(rows):
    assert len(rows["gsm8k"]) == 150
    for row in rows["gsm8k"]:
        scores = row["scores"]
        assert official_extract(row["completion"]) == scores["extracted"]
        assert official_extract(row["gold"]) == scores["gold_extracted"]
        assert official_correct(row["completion"], row["gold"]) == scores["correct"]


def test_supporting_facts_of_hotpotqa_and_twowiki(rows):
    assert len(rows["hotpotqa_support"]) == 78
    for row in rows["hotpotqa_support"]:
        own, gold = ([tuple(fact) for fact in row[name]] for name in ("pred_sp", "gold_sp"))
        answer = answers.hotpotqa(row["pred_answer"], [row["gold_answer"]])
        facts = support.hotpotqa_support(own, gold)
        official = row["scores"]["hotpotqa"]
        agrees(answer, {name: official[name] for name in ("em", "f1", "prec", "recall")})
        agrees(facts, official, "sp_")
        agrees(support.joint(answer, facts), official, "joint_")
        agrees(support.twowiki_support(own, gold), row["scores"]["twowiki_sp"], "sp_")


def test_averages_over_sets_of_hotpotqa(rows):
    assert len(rows["hotpotqa_set"]) == 8
    for row in rows["hotpotqa_set"]:
        predictions = [
            (item["pred_answer"], None if item["pred_sp"] is None else [tuple(fact) for fact in item["pred_sp"]])
            for item in row["items"]
        ]
        golds = [(item["gold_answer"], [tuple(fact) for fact in item["gold_sp"]]) for item in row["items"]]
        found, official = support.hotpotqa_set(predictions, golds), row["scores"]["hotpotqa"]
        agrees(found["answer"], {name: official[name] for name in ("em", "f1", "prec", "recall")})
        agrees(found["support"], official, "sp_")
        agrees(found["joint"], official, "joint_")


def test_support_of_musique(rows):
    assert len(rows["musique_support"]) == 75
    for row in rows["musique_support"]:
        answer = answers.musique(row["pred_answer"], row["gold_answers"])
        agrees(answer, row["scores"], "answer_")
        agrees(support.musique_support(row["pred_support"], row["gold_support"]), row["scores"], "support_")


def test_questions_of_musique_full(rows):
    assert len(rows["musique_full"]) == 25
    for row in rows["musique_full"]:
        instances = [
            support.Instance(
                each["answerable"], each["pred_answerable"], each["pred_answer"], tuple(each["pred_support"])
            )
            for each in row["instances"]
        ]
        found = support.musique_group(instances, row["gold_answers"], row["gold_support"])
        official = {name.removeprefix("group_"): value for name, value in row["scores"].items()}
        assert found == pytest.approx(official, **EXACT)


def test_spans_of_drop(rows):
    pytest.importorskip("scipy")
    assert len(rows["drop_multispan"]) == 40
    for row in rows["drop_multispan"]:
        found = spans(row["pred_spans"], row["gold_spans"])
        assert found == pytest.approx((row["scores"]["em"], row["scores"]["f1"]), **EXACT)


def test_rounding_of_drop_is_numpys(rows):
    marked = [row for row in rows["answer"] if row["scores"]["drop"] and "f1_raw" in row["scores"]["drop"]]
    assert len(marked) == 4
    assert any(round(row["scores"]["drop"]["f1_raw"], 2) != drop(row["pred"], row["golds"]).f1 for row in marked)
