"""``pzc pipeline``, ``pzc sql`` and ``pzc report``: tables of notifications, and what is in them."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..delivery.interests import ALL
from ..delivery.policies import WHEN_FULL, Policy, mailbox
from ..protocol.errors import ConfigError
from ..protocol.shown import plain
from ..transport.settings import load
from .options import Commands, add_command, add_every, add_json, positive, seconds
from .output import say, write, write_json, write_sentence, write_told
from .tables import write_table
from .targets import UsageError, split_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..pipeline.spark.workers import SparkWorkers
    from ..pipeline.tables.batches import Settings

MASTER = "local[*]"
MAX_FILES = 64
DUCKDB, SPARK = "duckdb", "spark"
ENGINES = (DUCKDB, SPARK)
ROWS = 1000

_WINDOWS = 'ask for them afterwards: pzc sql "select * from windows" --tables TABLES'
_REPLACED = {
    "--window": _WINDOWS,
    "--lateness": _WINDOWS,
    "--source": "use pzc pipeline follow AGENTS TABLES",
    "--max-rows": "use --max-files",
}


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    _add_pipeline(commands)
    sql = add_command(
        commands, "sql", run_sql, "ask the tables of a pipeline in SQL",
        "pzc sql \"select name, topic, count, rate_hz from statistics\" --tables /data/tables",
    )  # fmt: skip
    names = "notifications, quarantine, alarms, gaps, statistics, windows, restarts, damaged"
    sql.add_argument("query", help=f"SQL over {names}")
    of_tables = "of the tables; default the working directory"
    sql.add_argument("--tables", type=Path, default=Path(), metavar="DIR", help=of_tables)
    sql.add_argument(
        "--limit", type=positive, default=ROWS, metavar="N", help=f"print at most N rows; default {ROWS}"
    )
    sql.add_argument(
        "--engine", choices=ENGINES, default=DUCKDB,
        help=f"what answers, in its dialect: {DUCKDB} in this process (default), or {SPARK}",
    )  # fmt: skip
    _add_master(sql, None)
    add_json(sql)
    report = add_command(
        commands, "report", run_report, "write an HTML page about the tables of a pipeline",
        "pzc report /data/tables\n  pzc report /data/tables --output /srv/www/lab",
    )  # fmt: skip
    report.add_argument("tables", type=Path, metavar="DIR", help="directory of the tables")
    report.add_argument("-o", "--output", type=Path, metavar="DIR", help="of index.html; default DIR/report")
    report.add_argument("--title", default="Recorded notifications", help="heading of the page")
    add_json(report)


def _add_pipeline(commands: Commands) -> None:
    group = add_command(
        commands, "pipeline", run_pipeline, "make verified tables of a journal or of agents",
        "pzc pipeline run /data/journal /data/tables\n"
        "  pzc pipeline follow 'psu,cam*/image' /data/tables\n"
        "  pzc pipeline backfill /data/journal /data/tables --from 2026-01-01 --to 2026-01-31",
    )  # fmt: skip
    jobs = group.add_subparsers(metavar="JOB", required=True, dest="job")
    run = add_command(
        jobs, "run", run_pipeline, "keep tables up to date with a journal, until Ctrl-C",
        "pzc pipeline run /data/journal /data/tables --limits limits.toml\n"
        "  pzc pipeline run /data/journal /data/tables --once",
    )  # fmt: skip
    follow = add_command(
        jobs, "follow", run_follow, "record agents, and keep tables up to date with that, until Ctrl-C",
        "pzc pipeline follow 'psu,cam*/image' /data/tables --name archive",
    )  # fmt: skip
    follow.add_argument(
        "origin", metavar="AGENTS",
        help="names, patterns or endpoints, as 'psu,cam*/image', each with /TOPIC if only that is wanted",
    )  # fmt: skip
    _add_mailbox(follow)
    for parser in (run, follow):
        _add_going_on(parser)
    backfill = add_command(
        jobs, "backfill", run_backfill, "make days of the tables anew",
        "pzc pipeline backfill /data/journal /data/tables --from 2026-01-01 --to 2026-01-31",
    )  # fmt: skip
    backfill.add_argument(
        "--from", dest="first", type=_day, required=True, metavar="DAY", help="first day (UTC), as 2026-01-31"
    )
    backfill.add_argument("--to", dest="last", type=_day, required=True, metavar="DAY", help="last day")
    for parser in (run, backfill):
        parser.add_argument("origin", metavar="JOURNAL", help="directory of the journal")
    for parser in (run, follow, backfill):
        parser.add_argument("tables", type=Path, metavar="TABLES", help="directory; created when absent")
        parser.add_argument("--limits", type=Path, metavar="FILE", help="TOML file of limits; default none")
        _add_master(parser)
        parser.add_argument(
            "--in-process", type=_count, metavar="N",
            help="rows of a batch that this process does without Spark, default 20000, on a cluster 0",
        )  # fmt: skip
        parser.add_argument(
            "--wheel", type=Path, metavar="FILE",
            help="of this package, sent to a cluster's workers; default: it is installed on every node",
        )  # fmt: skip
        add_json(parser)
        parser.replaced = _REPLACED


def _add_going_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="end when all that is there now is in the tables")
    parser.add_argument(
        "--max-files", type=positive, default=MAX_FILES, metavar="N",
        help=f"segments of one batch at most, default {MAX_FILES}",
    )  # fmt: skip
    add_every(parser, "looks for something new")
    parser.add_argument(
        "--keep-days", type=positive, metavar="D",
        help="take days out of the tables that are older, by receipt; default never",
    )  # fmt: skip
    parser.add_argument(
        "--publish-alarms", action="store_true",
        help="publish the alarms of all limits, not only of those with publish = true",
    )  # fmt: skip


def _add_mailbox(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--journal", type=Path, metavar="DIR", help="to write; default TABLES/.journal")
    parser.add_argument("--name", help="of recorder and mailboxes; default one that belongs to TABLES")
    parser.add_argument("--topics", metavar="T,T", help="of the agents that name none; default all")
    for option, kind, unit, default, what in (
        ("--mailbox-messages", positive, "N", 200_000, "that each agent keeps at most, default 200000"),
        ("--mailbox-bytes", positive, "N", 512 << 20, "likewise, default 512 MiB"),
        ("--keep", seconds, "S", 3600.0, "seconds that a mailbox stays which nobody reads, default 3600"),
        ("--timeout", seconds, "S", 30.0, "for what the mailboxes hold to come, with --once; default 30"),
    ):
        parser.add_argument(option, type=kind, metavar=unit, default=default, help=what)
    parser.add_argument(
        "--when-full", choices=WHEN_FULL, default=WHEN_FULL[0],
        help=f"what an agent does with a full one, default {WHEN_FULL[0]}",
    )  # fmt: skip


def _add_master(parser: argparse.ArgumentParser, default: str | None = MASTER) -> None:
    parser.add_argument(
        "--master", default=default, metavar="URL",
        help=f"of Spark: {MASTER} (default), local[N], spark://HOST:PORT",
    )  # fmt: skip


def _day(text: str) -> date:
    """A day, as 2026-01-31."""
    with suppress(ValueError):
        return date.fromisoformat(text)
    raise argparse.ArgumentTypeError(f"{text} is no day such as 2026-01-31")


def _count(text: str) -> int:
    """A whole number, not negative."""
    return 0 if text == "0" else positive(text)


def run_pipeline(args: argparse.Namespace) -> int:
    """``pzc pipeline run``."""
    with _going_on(args, Path(args.origin)) as how:
        from ..pipeline.tables.run import run

        run(args.origin, args.tables, **how)
    return 0


def run_follow(args: argparse.Namespace) -> int:
    """``pzc pipeline follow``."""
    from ..pipeline.tables.follow import FOLDER, follow

    sources, policy = _sources(args), _mailbox(args)
    journal = args.journal or args.tables / FOLDER
    if not args.json:
        say(f"records {args.origin} in {journal} as {policy.durable}")
    with _going_on(args, journal) as how:
        follow(sources, journal, args.tables, policy, drain=args.timeout, **how)
    return 0


@contextmanager
def _going_on(args: argparse.Namespace, journal: Path) -> Generator[dict[str, Any]]:
    """What runs that follow something have in common."""
    with _work(args, journal) as (workers, settings), _announcer(args.limits) as announcer:
        from ..pipeline.tables.run import Pace
        from .following import Progress

        progress = Progress(args.json, announcer)
        pace = Pace(args.every, args.once, args.max_files, keep_days=args.keep_days)
        yield {"settings": settings, "workers": workers, "on_batch": progress.show, "pace": pace}
        progress.end()


def _sources(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Agents and topics."""
    if Path(args.origin).is_dir() or args.origin.startswith(("/", ".")):
        raise UsageError(
            f"follow reads no directory: name agents in place of {args.origin}, as 'psu,cam*/image' (an "
            "agent that is called like a directory is NAME/*)"
        )
    topics = _listed(args.topics or ALL)
    named = list(map(split_source, _listed(args.origin)))
    if not named:
        raise UsageError("no agent is named")
    return [(agent, each) for agent, topic in named for each in ([topic] if topic else topics)]


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _mailbox(args: argparse.Namespace) -> Policy:
    from ..pipeline.tables.follow import mailbox_name

    name = args.name or mailbox_name(args.tables)
    return mailbox(args.mailbox_messages, args.mailbox_bytes, args.when_full, name, args.keep)


@contextmanager
def _announcer(limits: Path | None) -> Generator[Any]:
    if limits is None:  # else an edit may add one that is published
        yield None
        return
    from ..pipeline.tables.alerts import Alerts

    with Alerts() as announcer:
        yield announcer


def run_backfill(args: argparse.Namespace) -> int:
    """``pzc pipeline backfill``."""
    if args.first > args.last:
        raise UsageError(f"--from {args.first} is after --to {args.last}")
    with _work(args, Path(args.origin)) as (workers, settings):
        from ..pipeline.tables.run import backfill
        from .following import facts

        made, days = backfill(args.origin, args.tables, settings, workers, args.first, args.last)
    if args.json:
        write_json({"days": [str(day) for day in days], **facts(made)})
    elif not days:
        write("the journal has no rows of these days")
    else:
        span = f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"
        write_sentence(
            f"{span}: {made.rows} rows, {made.notifications} notifications, "
            f"{made.quarantined} in quarantine, {made.alarms} alarms"
        )
    return 0


@contextmanager
def _work(args: argparse.Namespace, journal: Path) -> Generator[tuple[SparkWorkers, Settings]]:
    from ..pipeline.alarm_rules import checked_rules
    from ..pipeline.decoding.decode import make_decoder
    from ..pipeline.recording.reading import check_journal
    from ..pipeline.tables.batches import Settings

    if args.job != "follow":  # which makes one
        check_journal(journal)  # what is wrong is said before Spark takes its seconds
    if journal.resolve() == args.tables.resolve():
        raise UsageError(f"{args.tables} is the journal: name another folder for the tables")
    rules = checked_rules(args.limits, everything=getattr(args, "publish_alarms", False))
    decoder = make_decoder(load().keyring(), journal=journal)
    with _workers(args) as workers:
        yield workers, Settings(decoder, rules)


@contextmanager
def _workers(args: argparse.Namespace) -> Generator[SparkWorkers]:
    """Spark, which starts when there is enough to do; on a cluster at once."""
    from ..pipeline.spark.cluster import is_local, ready_workers
    from ..pipeline.spark.workers import ALONE, SparkWorkers

    local = is_local(args.master)
    alone = (ALONE if local else 0) if args.in_process is None else args.in_process
    with ExitStack() as stack:

        def session() -> SparkSession:
            spark = stack.enter_context(_spark(args.master))
            ready_workers(spark, args.wheel)
            return spark

        workers = SparkWorkers(session, alone)
        if not local:
            workers.open()
        yield workers


@contextmanager
def _spark(master: str) -> Generator[SparkSession]:
    """A session in which a value that an expression cannot use gives null, as one row may not stop a job.

    The session that this process has is used and kept.
    """
    from ..pipeline.spark.session import running, spark_session, stop

    shared = running()
    settings = {"spark.sql.ansi.enabled": "false", "spark.log.level": "ERROR"}
    spark = spark_session("pzc", master, settings=settings)
    try:
        yield spark
    finally:
        if not shared:
            stop(spark)


def write_cells(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table of any values, numbers to the right; errors as `write`."""
    from ..pipeline.reporting.texts import is_number, show

    cells = [list(row) for row in rows]
    numbers = [at for at, column in enumerate(zip(*cells, strict=True)) if all(map(is_number, column))]
    shown = [plain(heading, keep="") for heading in headings]
    write_table(shown, [list(map(show, row)) for row in cells], numbers)


def run_sql(args: argparse.Namespace) -> int:
    """``pzc sql``."""
    ask = _ask_spark if args.engine == SPARK or args.master else _ask_duckdb
    columns, rows = ask(args)
    if args.json:
        for row in rows[: args.limit]:
            write_json(dict(zip(columns, row, strict=True)))
    elif columns:
        write_cells(columns, rows[: args.limit])
    if len(rows) > args.limit:
        say(f"there are more than {args.limit} rows; --limit prints more")
    return 0


def _ask_duckdb(args: argparse.Namespace) -> tuple[list[str], list[list[Any]]]:
    from ..pipeline.snapshot import Tables

    tables: Any = Tables(args.tables)
    try:
        found = tables.sql(args.query, args.limit + 1)
    except ConfigError as exc:
        raise UsageError(str(exc)) from None
    cells: list[list[Any]] = [column.to_pylist() for column in found.columns]
    return list(found.schema.names), [list(row) for row in zip(*cells, strict=True)]


def _ask_spark(args: argparse.Namespace) -> tuple[list[str], list[list[Any]]]:
    from ..pipeline.snapshot import Tables
    from ..pipeline.sql import VIEWS

    tables = Tables(args.tables)
    with _spark(args.master or MASTER) as spark:
        from pyspark.errors import AnalysisException

        from ..pipeline.spark.workers import read_table

        for name in tables.keys() - VIEWS.keys():
            read_table(spark, tables, name).createOrReplaceTempView(name)
        for name, query in VIEWS.items():
            spark.sql(query).createOrReplaceTempView(name)
        try:
            found = spark.sql(args.query)
        except AnalysisException as exc:  # a syntax error is one as well
            raise UsageError(" ".join(str(exc).split("\n\n")[0].split())) from None
        columns = found.columns
        if again := [name for name in columns if columns.count(name) > 1]:
            raise UsageError(f"two columns are called {again[0]}: name them with AS")
        rows = found.limit(args.limit + 1).toLocalIterator()
        return columns, [list(row) for row in islice(rows, args.limit + 1)]


def run_report(args: argparse.Namespace) -> int:
    """``pzc report``."""
    from ..pipeline.reporting.report import stored_results, write_report

    results = stored_results(args.tables)
    page = write_report(args.output or args.tables / "report", results, title=args.title)
    write_told({"page": str(page), **results.facts}, str(page), args.json)
    return 0
