"""SPICE of captions, by its author's program: an F-measure of what scene graphs of the captions say.

Anderson et al., "SPICE: Semantic Propositional Image Caption Evaluation", ECCV 2016. No package index carries the
program together with the Stanford models that it parses with, so a person brings a folder (`Tools.spice`,
JAXEVAL_SPICE):

    FOLDER/spice-1.0.jar
    FOLDER/lib/*.jar        what the jar's manifest names, stanford-corenlp-3.6.0.jar and -models.jar among them

The folder `spice` of the package pycocoevalcap has all but those two, which are in
https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip. The program writes its results with the
JavaScript engine that Java has up to version 14; for a newer one put the jars of Nashorn 15 (`nashorn-core`, and those
of `asm`) into `lib` too.

With a cache folder, parsed captions are kept for later runs. One process at a time uses it; another that comes
meanwhile goes without, says so, and gets the same values.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from jaxeval.captions.java import JavaProgram, jar_classpath, java_version
from jaxeval.captions.score import Score, Unavailable, mean_score
from jaxeval.captions.tools import Tools
from jaxeval.errors import RunError
from jaxeval.files import locked_folder

JAR = "spice-1.0.jar"
MAIN = "edu.anu.spice.SpiceScorer"
MODELS = "https://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip"
LAST_WITH_JAVASCRIPT = 14
# The library that writes the cache looks into Java's own classes, which Java 16 and newer otherwise forbid.
OPENED = ("java.lang", "java.math", "java.net", "java.text", "java.util", "java.util.concurrent")


def check_spice(tools: Tools) -> None:
    """Raise `Unavailable` if Java or one of the jars is missing."""
    if tools.spice is None:
        raise Unavailable(
            "SPICE needs a folder with spice-1.0.jar and its lib, named in JAXEVAL_SPICE; "
            f"pycocoevalcap's folder `spice` with the two stanford-corenlp-3.6.0 jars of {MODELS} in its lib is one"
        )
    folder, version = Path(tools.spice), java_version(tools.java)
    if not (folder / JAR).is_file():
        raise Unavailable(f"SPICE needs {folder / JAR}, which is missing")
    if missing := [name for name in jar_classpath(folder / JAR) if not (folder / name).is_file()]:
        where = f"; the stanford-corenlp jars are in {MODELS}" if "stanford-corenlp" in missing[0] else ""
        raise Unavailable(f"SPICE: {folder} lacks {', '.join(missing)}{where}")
    if version > LAST_WITH_JAVASCRIPT and not list(folder.glob("lib/nashorn-core-*.jar")):
        raise Unavailable(
            f"SPICE needs a Java with a JavaScript engine and {tools.java!r} is Java {version}: name a Java 8 to "
            f"{LAST_WITH_JAVASCRIPT} in JAXEVAL_JAVA, or put the jars of nashorn-core 15 and asm into {folder / 'lib'}"
        )


def spice(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], tools: Tools) -> Score:
    """SPICE of each item, and the mean.

    Args:
        candidates: tokens of one caption an item.
        references: tokens of one or more captions an item.
        tools: where Java, the folder and the cache are.

    Returns:
        The score; a candidate that says nothing, or is to say nothing, has 0, as in the original.

    Raises:
        Unavailable: something is missing, or the program failed.
    """
    check_spice(tools)
    rows = []
    for index, (candidate, texts) in enumerate(zip(candidates, references, strict=True)):
        said = [" ".join(tokens) for tokens in texts if tokens]
        if candidate and said:  # the parser has no answer for an empty text
            rows.append({"image_id": index, "test": " ".join(candidate), "refs": said})
    items = np.zeros(len(candidates))
    if rows:
        for result in _run(rows, tools):
            items[result["image_id"]] = result["scores"]["All"]["f"]
    return mean_score(items)


def _run(rows: list[dict[str, object]], tools: Tools) -> list[dict]:
    """What the program says of each row."""
    assert tools.spice is not None
    folder = Path(tools.spice).absolute()
    with tempfile.TemporaryDirectory() as made, _cache(tools) as cache:
        source, target = Path(made) / "in.json", Path(made) / "out.json"
        source.write_text(json.dumps(rows), encoding="ascii")
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED] if cache else []
        command = [
            *(tools.java, "-Xmx8G", *(opened if java_version(tools.java) > 8 else [])),
            *("-cp", os.pathsep.join((str(folder / JAR), f"{folder / 'lib'}/*")), MAIN),
            *(str(source), "-out", str(target), "-subset", "-silent", *(("-cache", cache) if cache else ())),
        ]
        with JavaProgram("SPICE", command, tools.patience) as program:
            program.wait()
        try:
            results = json.loads(target.read_text(encoding="utf-8"))
            complete = {result["image_id"] for result in results} == {row["image_id"] for row in rows}
        except (OSError, ValueError, LookupError, TypeError):
            complete = False
        if not complete:
            raise Unavailable("the Java program of SPICE ended without a result for every item")
        return results


@contextlib.contextmanager
def _cache(tools: Tools) -> Iterator[str | None]:
    """The cache folder while nobody else can have it; None without one."""
    with contextlib.ExitStack() as claimed:
        folder = tools.spice_cache
        if folder is not None:
            try:
                claimed.enter_context(locked_folder(folder))
            except RunError:
                warnings.warn(f"{folder}: another process uses this cache of SPICE; going without", stacklevel=2)
                folder = None
        yield folder
