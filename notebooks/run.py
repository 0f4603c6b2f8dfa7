#!/usr/bin/env python3
"""Runs every notebook of this directory from top to bottom and fails on the first error.

    pip install -r requirements.txt
    TRACE=../out/trace.parquet MODEL=../out/model.json python3 run.py [NOTEBOOK...] [--save DIR]

Relative paths in TRACE and MODEL are meant from the current directory. The notebooks themselves
are not changed; with `--save` the executed copies, with their figures, are written to DIR. A
notebook that was committed with outputs is an error too.
"""

import argparse
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).resolve().parent
CELL_TIMEOUT_S = 300


def has_outputs(notebook):
    return any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def main():
    parser = argparse.ArgumentParser(description="Run notebooks headless.")
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--save", type=Path, help="directory for the executed copies")
    args = parser.parse_args()
    for name in ("TRACE", "MODEL"):
        if os.environ.get(name):
            os.environ[name] = str(Path(os.environ[name]).resolve())
    failed = 0
    for path in args.notebooks or sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        if has_outputs(notebook):
            print(f"{path.name}: has outputs; clear them before committing")
            failed += 1
            continue
        client = NotebookClient(
            notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3",
            resources={"metadata": {"path": str(HERE)}},
        )
        try:
            client.execute()
            print(f"{path.name}: ok, {len(notebook.cells)} cells")
        except CellExecutionError as error:
            print(f"{path.name}: FAILED\n{error}")
            failed += 1
        if args.save:
            args.save.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, args.save / path.name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
