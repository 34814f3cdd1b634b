from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pzc.pipeline.reporting.report import (
    Check,
    Results,
    note,
    show,
    write_report,
)
from pzc.pipeline.reporting.series import Line, Panel, Shot

pytestmark = pytest.mark.allow_leaks("matplotlib keeps its font files open")

GOOD = Check("all frames arrived", 200, 200, True)
BAD = Check("monthly means equal pandas", 0.0, 0.25, False)
HOSTILE = '<script>alert("x")</script>&'


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def statistics() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "publisher": ["a1", "b2"],
            "name": ["psu", HOSTILE],
            "topic": ["voltage_changed", "frame"],
            "epochs": [1, 1],
            "count": [40, 200],
            "missing": [0, 3],
            "first_sent": pd.to_datetime(["2024-01-01", "2024-01-01"], utc=True),
            "last_sent": pd.to_datetime(["2024-01-02", "2024-01-02"], utc=True),
            "rate_hz": [4.0, None],
            "age_min_ms": [0.5, 1.0],
            "age_mean_ms": [1.25, 2.0],
            "age_max_ms": [9.0, 3.0],
            "age_p99_ms": [8.0, 2.9],
            "values": [40, 0],
            "min": [0.0, None],
            "max": [3.3, None],
            "mean": [1.5, None],
            "std": [1.1, None],
        }
    )


@pytest.fixture(scope="module")
def results(statistics: pd.DataFrame) -> Results:
    times = np.array([0, 1_000_000], "datetime64[us]")
    ends = np.array([0.0, 3.3])
    return Results(
        checks=[GOOD],
        statistics=statistics,
        sections=[("Further", note(HOSTILE))],
        series=[Panel(HOSTILE, "v", 2, {"": Line(times, ends, ends, ends)})],
        shots=[Shot("camera", "frame", times[0], np.arange(64.0).reshape(8, 8))],
        facts={"machine": HOSTILE},
    )


def page(directory: Path, results: Results, **options: str) -> Page:
    return Page(write_report(directory, results, **options).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, results: Results) -> Page:
    """One page for all tests that only look at it."""
    return page(tmp_path_factory.mktemp("report"), results, title="Ramp & roll")


# --- the page ---------------------------------------------------------------------------------------


def test_the_page_holds_every_plot(full: Page) -> None:
    kinds = [str(image["src"]).partition(",")[0] for image in full.all("img")]
    vector, pixels = "data:image/svg+xml;base64", "data:image/png;base64"
    assert kinds == [vector, pixels, vector, vector]


def test_the_plots_are_whole_images(full: Page) -> None:
    images = [base64.b64decode(str(image["src"]).partition(",")[2]) for image in full.all("img")]
    ends = [image.rstrip()[-8:] for image in images]
    assert [b"</svg>" in end or end == b"IEND\xaeB`\x82" for end in ends] == [True] * 4


def test_every_plot_says_in_words_what_it_shows(full: Page) -> None:
    alts = [str(image["alt"]) for image in full.all("img")]
    assert "2 numbers from 0 to 3.3" in alts[0]
    assert "camera frame: 8 by 8" in alts[1]
    assert "voltage_changed: rate 4 Hz" in alts[2]
    assert "voltage_changed: mean 1.25 ms, p99 8 ms" in alts[3]


def test_the_page_loads_nothing(full: Page) -> None:
    addresses = [a[name] for _, a in full.tags for name in ("src", "href") if name in a]
    assert all(str(address).startswith("data:") for address in addresses)
    assert not {"script", "link", "iframe"} & {tag for tag, _ in full.tags}


def test_the_page_is_one_file(tmp_path: Path) -> None:
    write_report(tmp_path, Results())
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_the_page_tells_its_language_title_and_encoding(full: Page) -> None:
    assert full.all("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in full.all("meta")
    assert "Ramp & roll" in full.text


def test_tables_have_captions_and_headings_for_columns(full: Page) -> None:
    assert len(full.all("caption")) == len(full.all("table")) == 2
    assert all(heading["scope"] == "col" for heading in full.all("th"))


def test_text_from_the_network_is_escaped(tmp_path: Path, results: Results) -> None:
    failed = pd.DataFrame({"name": [HOSTILE], "topic": ["t"], "error": ["E"], "reason": [HOSTILE]})
    hostile = replace(results, quarantine=failed, checks=[Check(HOSTILE, HOSTILE, HOSTILE, True)])
    text = write_report(tmp_path, hostile, title=HOSTILE).read_text(encoding="utf-8")
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 8


def test_an_attribute_cannot_be_left_by_a_quote(tmp_path: Path, statistics: pd.DataFrame) -> None:
    hostile = Results(statistics=statistics.assign(topic='x" onerror="alert(1)'))
    assert all(set(image) == {"src", "alt"} for image in page(tmp_path, hostile).all("img"))


def test_the_same_results_give_the_same_page(tmp_path: Path, results: Results) -> None:
    first = write_report(tmp_path / "a", results).read_bytes()
    assert write_report(tmp_path / "b", results).read_bytes() == first


def test_a_new_report_replaces_the_old_one(tmp_path: Path) -> None:
    write_report(tmp_path, Results(), title="first")
    assert "first" not in page(tmp_path, Results(), title="second").text


# --- the verdict ------------------------------------------------------------------------------------


def test_checks_that_all_hold_are_a_good_report(tmp_path: Path) -> None:
    results = Results(checks=[GOOD, GOOD])
    assert results.ok
    assert "all checks passed" in page(tmp_path, results).text


def test_one_failed_check_is_a_bad_report(tmp_path: Path) -> None:
    results = Results(checks=[GOOD, BAD])
    assert not results.ok
    assert "1 of 2 checks failed" in page(tmp_path, results).text


def test_a_report_without_checks_is_neither_good_nor_bad(tmp_path: Path) -> None:
    assert not Results().ok
    assert not [tag for tag in page(tmp_path, Results()).all("p") if "verdict" in str(tag.get("class"))]


def test_a_failed_check_shows_what_was_expected_and_what_came(tmp_path: Path) -> None:
    text = page(tmp_path, Results(checks=[BAD])).text
    assert "monthly means equal pandas00.25✗ failed" in text


# --- what is absent ---------------------------------------------------------------------------------


def test_an_empty_report_says_of_each_part_that_it_is_absent(tmp_path: Path) -> None:
    found = page(tmp_path, Results())
    assert found.text.count("No numbers.") == 1
    assert found.text.count("No notifications.") == 3
    assert found.all("img") == []


def test_missing_sequence_numbers_are_listed(tmp_path: Path) -> None:
    gaps = pd.DataFrame(
        {"name": ["psu"], "topic": ["v"], "first_missing": [17], "last_missing": [19], "count": [3]}
    )
    assert "psu" in page(tmp_path, Results(gaps=gaps)).text
    assert "Nothing is missing." in page(tmp_path, Results(gaps=gaps.head(0))).text


def test_quarantined_rows_are_counted_by_reason(tmp_path: Path) -> None:
    columns = {
        "name": ["psu"] * 3,
        "topic": ["v"] * 3,
        "error": ["E"] * 3,
        "reason": ["keys differ", "bent", "bent"],
    }
    assert re.search(r"bent2.*keys differ1", page(tmp_path, Results(quarantine=pd.DataFrame(columns))).text)


def test_a_topic_without_rate_shows_a_dash(tmp_path: Path, statistics: pd.DataFrame) -> None:
    rows = re.findall(
        r"<tr>(.*?)</tr>", write_report(tmp_path, Results(statistics=statistics)).read_text("utf-8")
    )
    assert '<td class="n">-</td>' in rows[-1]


# --- cells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (pd.NaT, "-"),
        (0.1 + 0.2, "0.3"),
        (np.float64(1234567.0), "1.23457e+06"),
        (12, "12"),
        (pd.Timestamp("2024-01-02 03:04:05.6", tz="UTC"), "2024-01-02 03:04:05"),
    ],
)
def test_a_cell_is_short_and_readable(value: object, text: str) -> None:
    assert show(value) == text


def test_of_very_many_topics_and_gaps_a_page_shows_some_and_counts_the_others(
    statistics: pd.DataFrame, tmp_path: Path
) -> None:
    many = pd.concat([statistics.iloc[:1]] * 1200, ignore_index=True)
    many["topic"] = [f"t{number}" for number in range(1200)]
    many.loc[700, "count"] = 41
    gap = {"name": "psu", "topic": "t", "first_missing": 1, "last_missing": 1, "count": 1}
    page = Page(write_report(tmp_path, Results(statistics=many, gaps=pd.DataFrame([gap] * 1001))).read_text())
    assert len(page.all("tr")) == 2 * (1 + 1000)
    assert "The first 1000 rows; further ones: 200." in page.text
    assert "The first 1000 rows; further ones: 1." in page.text
    assert "Topics that are not drawn: 1160." in page.text
    (bars, *_) = [each["alt"] for each in page.all("img") if "Hz" in (each["alt"] or "")]
    assert bars is not None
    assert ("t700:" in bars, "t38:" in bars, "t39:" in bars) == (True, True, False)
