"""The papers' real data in the files in which they are given out, written small by the tests."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError
from keyveil.lab.datasets import named
from keyveil.lab.datasets.papers import SOURCES, Published, source
from keyveil.lab.experiments.catalogue import experiment
from keyveil.lab.experiments.people import crowd, file_of, fingerprint, said
from keyveil.lab.experiments.plan import planned
from keyveil.lab.experiments.shape import People
from keyveil.lab.record.plan import Grid, cells


def written(folder: Path, **files: str) -> Path:
    """Files by their names, with their suffixes."""
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return folder


MOVIES = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,318,5.0,1260759179\n2,318,0.5,1260759182\n"


def test_movielens(tmp_path: Path) -> None:
    data = named(f"movielens:{written(tmp_path, ratings_csv=MOVIES)}")
    assert data.n == 2 and data.schema.keys == ("31", "318") and data.population.pairs == 3
    truth = data.population.truth(data.schema)
    assert truth.count.tolist() == [1, 2]
    assert truth.mean == pytest.approx([(2.5 - 2.75) / 2.25, 0.0])  # 0.5 to 5 stars
    assert "2 people where 138,493 were published; 2 keys where 26,744 were published" in data.about
    assert "3 rows where 20,000,263 were published" in data.about


def test_the_most_rated_films(tmp_path: Path) -> None:
    rows = "".join(f"{user},{film},4.0,0\n" for user in range(1, 9) for film in range(user, 9)) + "9,999,1.0,0\n"
    two = replace(source("movielens_top100"), top=2)
    data = two.load(written(tmp_path, ratings_csv="userId,movieId,rating,timestamp\n" + rows))
    assert sorted(data.schema.keys) == ["7", "8"] and data.population.notes == {}
    assert data.n == 9  # who rated none of them holds nothing
    assert data.population.truth(data.schema).count.tolist() == [7, 8]


@pytest.mark.parametrize("zipped", [False, True])
def test_renttherunway(tmp_path: Path, zipped: bool) -> None:
    lines = [
        {"fit": "fit", "user_id": "420272", "item_id": "2260466", "rating": "10", "weight": "137lbs"},
        {"fit": "small", "user_id": "420272", "item_id": "153475", "rating": "6", "review_date": "June 1, 2015"},
        {"fit": "fit", "user_id": "9", "item_id": "153475", "rating": None},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    if zipped:
        (tmp_path / "renttherunway_final_data.json.gz").write_bytes(gzip.compress(text))
    else:
        (tmp_path / "renttherunway_final_data.json").write_bytes(text)
    data = named(f"renttherunway:{tmp_path}")
    assert data.n == 2 and data.population.sizes.tolist() == [2, 0]
    assert data.population.truth(data.schema).mean.tolist() == [0.0, 1.0]  # 6 and 10 between 2 and 10


def test_amazon(tmp_path: Path) -> None:
    text = "UserId,ProductId,Rating,Timestamp\nA39HTATAQ9V7YF,0205616461,5.0,1369699200\nA3JM6,0558925278,3.0,1\n"
    data = named(f"amazon_beauty:{written(tmp_path, ratings_Beauty_csv=text)}")
    assert data.n == 2 and data.schema.d == 2
    assert sorted(data.population.truth(data.schema).mean.tolist()) == [0.0, 1.0]


def test_clothing_reviews(tmp_path: Path) -> None:
    text = ',Clothing ID,Age,Title,Review Text,Rating\n0,767,33,,"soft,\nand silky",4\n1,767,34,,"x",2\n2,1080,60,,,5\n'
    (tmp_path / "Womens Clothing E-Commerce Reviews.csv").write_text(text)
    data = named(f"womens_clothing_reviews:{tmp_path}")
    assert data.n == 3 and data.schema.keys == ("767", "1080")
    assert data.population.truth(data.schema).mean.tolist() == [0.0, 1.0]


def test_talkingdata(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        events_csv="event_id,device_id,timestamp,longitude,latitude\n1,29182687948017175,t,0,0\n2,-64015,t,0,0\n"
        "3,29182687948017175,t,0,0\n4,7,t,0,0\n",
        app_events_csv="event_id,app_id,is_installed,is_active\n1,50,1,1\n1,60,1,0\n2,50,1,1\n3,50,1,1\n",
        app_labels_csv="app_id,label_id\n50,1\n50,2\n50,3\n60,3\n",
        label_categories_csv="label_id,category\n1,game\n2,game\n3,online\n4,\n",
    )
    data = named(f"talkingdata:{folder}")
    assert data.n == 3 and data.schema.keys == ("game", "online")
    names, offsets = data.population.names, data.population.offsets
    assert isinstance(names, tuple)
    pairs = [(str(names[key]), count) for key, count in zip(data.population.keys, data.population.values, strict=True)]
    held = [sorted(pairs[begin:end]) for begin, end in itertools.pairwise(offsets)]
    assert sorted(held) == [[], [("game", 1.0), ("online", 1.0)], [("game", 2.0), ("online", 3.0)]]
    assert "4 rows where 32,473,067 were published" in data.about and "ours" in data.about


def test_jdata(tmp_path: Path) -> None:
    head = "user_id,sku_id,time,model_id,type,cate,brand\n"
    row = "{}.0,1,2016-02-01,0,6,4,{}\n"
    folder = written(
        tmp_path,
        JData_Action_201602_csv=head + row.format(300001, 891) * 3,
        JData_Action_201603_csv=head + row.format(300001, 885),
        JData_Action_201604_csv=head + row.format(300002, 891) * 200,
        JData_Action_201603_extra_csv=head + row.format(300001, 891),
    )
    data = named(f"jdata:{folder}")
    assert data.n == 2 and data.schema.keys == ("885", "891")
    assert sorted(data.population.values.tolist()) == [1, 4, 200]
    mean = data.population.truth(data.schema).mean
    assert mean[0] == -1 and mean[1] == pytest.approx((2 * np.log(4) / np.log(100) - 1 + 1) / 2)  # 200 is cut to 100


def test_emojistats(tmp_path: Path) -> None:
    folder = written(tmp_path, emojistats_csv="emoji,count\n😂,3\n❤,1\n")
    data = named(f"emojistats:{folder}")
    assert data.n == 4 and data.population.truth(data.schema).frequency.tolist() == pytest.approx([0.25, 0.75])


def test_what_agrees_with_the_paper_is_said() -> None:
    published = Published(2, 3, 6, "a table")
    assert published.told(2, 3) == "people and keys are as many as published (a table)"
    assert published.told(2, 4) == "4 keys where 3 were published"


@pytest.mark.parametrize(
    ("name", "file", "text", "told"),
    [
        ("movielens", "ratings.csv", "user,film,stars\n1,2,3\n", ["'userId'", "'rating'", "userId, movieId, rating"]),
        ("renttherunway", "renttherunway.json", '{"user": "1", "rating": "4"}\n', ["user_id, item_id", "a line with"]),
        ("jdata", "JData_Action_201602.csv", "a,b\n1,2\n", ["JData_Action_201603.csv", "user_id and brand"]),
        ("talkingdata", "events.csv", "event_id,device_id\n", ["app_events.csv", "event_id, app_id"]),
        ("emojistats", "emojistats.csv", "emoji,count\nx,1.5\n", ["no whole numbers", "emoji and count"]),
        ("amazon_beauty", "ratings_Beauty.csv", "A39,0205,5.0,1369699200\n", ["'UserId'", "UserId, ProductId"]),
        ("movielens", "ratings.csv", "", ["cannot be read"]),
    ],
)
def test_a_wrong_file_says_what_was_expected(name: str, file: str, text: str, told: list[str], tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(KeyveilError) as refused:
        named(f"{name}:{tmp_path}")
    assert [words for words in told if words not in refused.value.sentence] == []


def test_sources_say_what_is_not_known() -> None:
    assert all(one.unknown and one.columns and one.published.where for one in SOURCES.values())


# -- in experiments and records -------------------------------------------------------------------------------------


def people_of(id: str, title: str) -> People:
    return next(one for one in experiment(id).people if one.title == title)


def test_reproduce_finds_the_files_as_they_are_given_out(tmp_path: Path) -> None:
    people = people_of("sun-fig1", "MovieLens")
    assert file_of(people, tmp_path) is None
    (tmp_path / "ml-20m").mkdir()
    path = written(tmp_path / "ml-20m", ratings_csv=MOVIES) / "ratings.csv"
    assert file_of(people, tmp_path) == path
    read = crowd(people, 0, 1, path)
    assert (read.truth.n, read.schema.d) == (2, 2)
    told = said(people, path, read.truth.n, read.schema.d)
    assert "stars from 0.5 to 5" in told and "2 people where 138,493 were published" in told
    before = fingerprint(people, path)
    path.write_text(MOVIES.replace("2.5", "3.5"))
    assert fingerprint(people, path) != before


def test_the_columns_user_key_and_value_are_read_as_well(tmp_path: Path) -> None:
    people = people_of("wang-fig4", "Emoji")
    plain = written(tmp_path, emoji_sentiment_csv="user,key,value\n1,a,1\n2,b,-1\n") / "emoji_sentiment.csv"
    assert file_of(people, tmp_path) == plain and crowd(people, 0, 1, plain).truth.n == 2
    counts = written(tmp_path, emojistats_csv="emoji,count\na,2\nb,1\n") / "emojistats.csv"
    assert file_of(people, tmp_path) == counts and crowd(people, 0, 1, counts).truth.n == 3


def test_a_plan_takes_the_padding_of_the_paper_for_its_own_data(tmp_path: Path) -> None:
    written(tmp_path, ratings_csv=MOVIES)
    caps = [
        {cell.who.partition("max_pairs=")[2].partition(",")[0] for cell in plan.cells if cell.people.title == "Movies"}
        for plan in (planned(experiment("li-fig3"), "quick", 1, folder) for folder in (None, tmp_path))
    ]
    assert "40" in caps[0] and "100" in caps[1] and "40" not in caps[1]


def test_a_record_tells_two_sources_of_one_file_apart(tmp_path: Path) -> None:
    written(tmp_path, ratings_csv=MOVIES)
    data = tuple(f"{name}:{tmp_path}" for name in ("movielens", "movielens_top100"))
    first, second = cells(Grid("", data, (), ("1",), ("kvue",)), seed=1)
    assert first.key != second.key and first.file == second.file and first.people == "movielens"


def test_the_page_has_every_source() -> None:
    page = " ".join(Path("docs/papers-data.md").read_text(encoding="utf-8").split())
    for one in SOURCES.values():
        for words in (f"`{one.name}`", one.title, one.columns, one.about, one.unknown):
            assert words in page, words
