"""The page, used as people use it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from pzc import Agent, Protocol, Proxy, close, lock

from tests.contract.rigs.browsing import crowd, median_delay, panel, row, serve, size, until
from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.labs import SUPPLY, Bench
from tests.contract.rigs.monitoring import Monitor
from tests.contract.rigs.processes import Forge, Hand


@pytest.fixture
def psu(lab: Console) -> Iterator[Any]:
    proxy = Proxy(lab.endpoint, protocol=Protocol(KEY))
    yield proxy
    close(proxy)


def test_the_token_does_not_stay_in_the_address(page: Page) -> None:
    assert "token" not in page.url


def test_a_page_whose_session_has_ended_asks_for_a_token(browser: Browser, monitor: Monitor) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(monitor.users["alice"])
    row(page, "psu").wait_for()
    page.evaluate("""() => fetch("/logout", {
        method: "POST", headers: {"content-type": "application/json"}, body: "{}",
    })""")
    page.locator("#login").wait_for()
    assert page.locator("#summary").inner_text() == "a token is needed"
    context.close()


def test_a_value_that_is_set_is_set_in_the_server_and_stands_on_the_panel(page: Page, psu: Any) -> None:
    voltage = panel(page, "psu").locator('[data-member="voltage"]')
    voltage.get_by_label("new value of voltage").fill("4.5")
    voltage.get_by_role("button", name="Set").click()
    until(lambda: psu.voltage == 4.5, page)
    until(lambda: voltage.locator(".value").inner_text() == "4.5 V", page)


def test_a_value_outside_the_range_is_not_sent(page: Page, psu: Any) -> None:
    psu.voltage = 1.0
    voltage = panel(page, "psu").locator('[data-member="voltage"]')
    voltage.get_by_label("new value of voltage").fill("31")
    voltage.get_by_role("button", name="Set").click()
    assert voltage.locator("input").evaluate("(input) => input.validity.rangeOverflow")
    assert psu.voltage == 1.0


def test_a_server_that_is_frozen_is_trouble_on_top_and_is_no_more_when_it_goes_on(
    page: Page, lab: Console
) -> None:
    program, _ = serve(lab, "Supply", "frozen")
    try:
        row(page, "frozen").wait_for()
        until(lambda: "answers" in row(page, "frozen").inner_text(), page)
        os.kill(program.pid, signal.SIGSTOP)
        first = page.locator("#troubles li").first
        until(lambda: re.search("frozen (does not answer|is gone)", first.inner_text()), page)
        assert page.locator("#troubles").bounding_box()["y"] < row(page, "psu").bounding_box()["y"]  # pyright: ignore[reportOptionalSubscript]
        until(lambda: "1 in trouble" in page.locator("#summary").inner_text(), page)
        os.kill(program.pid, signal.SIGCONT)
        until(lambda: "All is well" in page.locator("#troubles").inner_text(), page)
    finally:
        os.kill(program.pid, signal.SIGCONT)
        program.close()


def test_whoever_takes_the_lock_elsewhere_stands_in_the_table(page: Page, psu: Any) -> None:
    with lock(psu, reason="calibration"):
        until(lambda: "calibration" in row(page, "psu").inner_text(), page)
    until(lambda: "calibration" not in row(page, "psu").inner_text(), page)


def test_the_switch_takes_the_lock_and_gives_it_back(page: Page) -> None:
    switch = panel(page, "psu").get_by_role("switch")
    switch.click()
    until(lambda: switch.get_attribute("aria-checked") == "true", page)
    assert "taken on the page" in row(page, "psu").inner_text()
    switch.click()
    until(lambda: switch.get_attribute("aria-checked") == "false", page)


def test_a_lock_of_a_page_that_is_closed_is_given_back(browser: Browser, monitor: Monitor, psu: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(monitor.users["alice"])
    row(page, "psu").wait_for()
    switch = panel(page, "psu").get_by_role("switch")
    switch.click()
    until(lambda: switch.get_attribute("aria-checked") == "true", page)
    context.close()
    with lock(psu, wait=10.0):
        psu.voltage = 2.0


def test_urgent_members_work_while_another_has_the_lock_and_a_call_runs(page: Page, psu: Any) -> None:
    with lock(psu):
        waiting = psu.wait.future(20.0)
        off = panel(page, "psu").get_by_role("button", name="off")
        assert "urgent" in (off.get_attribute("class") or "")
        off.click()
        until(lambda: "done" in panel(page, "psu").locator(".result").inner_text(), page)
        assert not waiting.done()
        waiting.cancel()
    assert psu.on is False


def test_a_call_shows_its_result_and_can_be_called_off(page: Page) -> None:
    wait = panel(page, "psu").locator('[data-member="wait"]')
    wait.get_by_label("seconds of wait").fill("0.1")
    wait.get_by_role("button", name="wait").click()
    until(lambda: wait.locator("output").inner_text() == "waited", page)
    wait.get_by_label("seconds of wait").fill("60")
    wait.get_by_role("button", name="wait").click()
    assert wait.locator("output").inner_text() == "runs …"
    calls = panel(page, "psu").locator(".calls li")

    def over() -> bool:
        if "wait running" in "".join(calls.all_inner_texts()):
            calls.get_by_role("button", name="Cancel").first.click()
        return wait.locator("output").inner_text() != "runs …"

    until(over, page)


def test_names_and_values_are_text_and_never_markup(page: Page) -> None:
    shown = panel(page, "psu")
    assert "<img src=x onerror" in shown.locator(".doc").first.inner_text()
    until(lambda: "<script>" in shown.locator('[data-member="label"] .value').inner_text(), page)
    assert page.locator("main img, main script").count() == 0
    assert "broken in" not in page.title()


def test_an_inline_script_does_not_run(browser: Browser, monitor: Monitor) -> None:
    page = browser.new_page()
    page.goto(monitor.address)
    blocked = page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
            try {
                const script = document.createElement("script");
                script.text = "document.title = 'broken in'";
                document.body.append(script);
            } catch (error) { /* the policy of trusted types refuses it before */ }
        })"""
    )
    assert blocked in ("require-trusted-types-for", "script-src-elem")
    assert "broken in" not in page.title()
    page.close()


def test_everything_works_with_the_keyboard_alone(page: Page, psu: Any) -> None:
    page.locator("#filter").focus()
    page.keyboard.type("psu")
    until(lambda: page.locator("#agents tbody tr").count() == 1, page)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "psu":
            break
    page.keyboard.press("Enter")
    page.locator('section[data-panel="psu"] .control').first.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == "new value of voltage":
            break
    page.keyboard.type("7.25")
    page.keyboard.press("Enter")
    until(lambda: psu.voltage == 7.25, page)
    page.keyboard.press("Escape")
    until(lambda: page.locator('section[data-panel="psu"]').count() == 0, page)
    assert page.evaluate("document.activeElement.textContent") == "psu"


@pytest.mark.parametrize("width", [360, 1920])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size(size(width, 900))
    panel(page, "psu")
    panel(page, "busy")
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert page.evaluate(wide) is False


CONTRAST = """(selector) => {
    const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = (text) => {
        const [r, g, b] = text.match(/[0-9.]+/g).map(Number);
        return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    };
    const ground = (element) => {
        const found = getComputedStyle(element).backgroundColor;
        return found === "rgba(0, 0, 0, 0)" && element.parentElement ? ground(element.parentElement) : found;
    };
    return [...document.querySelectorAll(selector)].map((element) => {
        const one = light(getComputedStyle(element).color), other = light(ground(element));
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        return [ratio, `${element.tagName} ${element.className} ${element.textContent.slice(0, 20)}`];
    });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_in_dark(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    panel(page, "psu")
    ratios = page.evaluate(CONTRAST, "#troubles li, td, th, .doc, .label, .value, button:enabled, h2, #who")
    assert len(ratios) > 30
    assert [each for each in ratios if each[0] < 4.5] == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
    assert dark is (scheme == "dark")


def test_processes_of_a_lab_file_stand_on_the_page_and_what_does_not_run_is_trouble(
    browser: Browser, forge: Forge, tmp_path: Path
) -> None:
    bench, console = Bench(tmp_path), Console(tmp_path, forge)
    console.environment.update(bench.environment())
    bench.write(f'{SUPPLY}[server.wrong]\nobject = "bench:Wrong"\nargs = ["10.0.0.7"]\n')
    bench.run("up")
    context = browser.new_context()
    try:
        with Monitor(console, "--lab", str(tmp_path / "lab.toml")) as monitor:
            page = context.new_page()
            page.goto(monitor.address)
            listed, wrong = page.locator("#processes"), page.locator('#troubles li[data-agent="wrong"]')
            until(lambda: "psu (server) running for" in listed.inner_text(), page)
            until(lambda: wrong.count() and "no route to 10.0.0.7" in wrong.inner_text(), page)
            assert page.locator('#troubles li[data-agent="psu"]').count() == 0
            bench.run("down")
            until(lambda: not listed.is_visible(), page)
    finally:
        context.close()
        bench.run("down")
        console.close()


@pytest.mark.slow
def test_twenty_frozen_agents_of_two_hundred_are_marked_and_nobody_else(
    browser: Browser, lab: Console, forge: Forge
) -> None:
    crowds = [Hand(forge, f"crowd{number}", 20, make=crowd) for number in range(10)]
    peers, names = lab.environment["PZC_PEERS"], [hand.ask("endpoints") for hand in crowds]
    lab.environment["PZC_PEERS"] = ",".join(
        [peers or "", *(f"{name}={at}" for each in names for name, at in each.items())]
    )
    context = browser.new_context()
    try:
        with Monitor(lab) as monitor:
            page = context.new_page()
            page.goto(monitor.address)
            silent = page.locator("#agents tr:has(td.silent), #agents tr:has(td.gone)")
            until(lambda: page.locator("#agents td.well").count() >= 200, page, 60.0)
            crowds[3].freeze()
            until(lambda: silent.count() == 20, page, 60.0)
            assert {each.get_attribute("data-agent") for each in silent.all()} == set(names[3])
            marked = page.locator("#troubles li.bad")
            assert {each.get_attribute("data-agent") for each in marked.all()} == set(names[3])
            panel(page, "psu")
            assert median_delay(page) < 200
            crowds[3].thaw()
            until(lambda: marked.count() == 0, page, 60.0)
    finally:
        context.close()
        lab.environment["PZC_PEERS"] = peers
        for hand in crowds:
            hand.kill()


@pytest.mark.slow
def test_two_hundred_agents_stand_in_the_table_and_can_be_filtered(browser: Browser, lab: Console) -> None:
    agents = [Agent(name=f"agent{number:03}", protocol=Protocol(KEY)) for number in range(200)]
    peers = lab.environment["PZC_PEERS"]
    lab.environment["PZC_PEERS"] = ",".join(f"{agent.name}={agent.rep_endpoint}" for agent in agents)
    context = browser.new_context()
    try:
        with Monitor(lab) as monitor:
            page = context.new_page()
            page.goto(monitor.address)
            until(lambda: page.locator("#agents td.well").count() >= 200, page, 60.0)
            page.locator("#filter").fill("agent17")
            until(lambda: page.locator("#agents tbody tr").count() == 10, page)
    finally:
        context.close()
        lab.environment["PZC_PEERS"] = peers
        for agent in agents:
            agent.stop()


@pytest.mark.slow
def test_ten_thousand_updates_a_second_leave_the_page_quick_and_its_memory_flat(page: Page) -> None:
    shown = panel(page, "busy")
    shown.locator("canvas.plot").first.wait_for()
    shown.locator("canvas.image").first.wait_for()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def heap() -> float:
        session.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        return metrics["JSHeapUsedSize"] / 1e6

    median_delay(page)
    before = heap()
    seen = shown.locator('[data-member="value"] .value').inner_text()
    assert median_delay(page) < 200
    assert heap() - before < 3.0
    assert shown.locator('[data-member="value"] .value').inner_text() != seen
