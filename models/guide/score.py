#!/usr/bin/env python3
"""How many held-out questions does a guide answer right?   score.py RIDGE MODEL.gguf [--transcript]"""

import json
import pathlib
import re
import subprocess
import sys

QUESTIONS = json.loads((pathlib.Path(__file__).parent / "questions.json").read_text())


def grade(known, unknown, show=print):
    """known, unknown: the answers to the questions of questions.json, in order. Shows what went wrong."""
    right = [all(re.search(fact, a, re.I) for fact in q["facts"]) for q, a in zip(QUESTIONS["known"], known)]
    honest = [bool(re.search("only know", a)) for a in unknown]
    for q, a, ok in zip(QUESTIONS["known"] + QUESTIONS["unknown"], known + unknown, right + honest):
        if not ok:
            show(f"  MISS {q['question']}\n       {a}")
    show(f"questions {sum(right)}/{len(right)}, refusals {sum(honest)}/{len(honest)}")


def main():
    ridge, model = sys.argv[1:3]

    def ask(question):
        run = subprocess.run([ridge, "run", "-m", model, "--device", "cpu", "--temp", "0", "-n", "120", "-p", question], capture_output=True, text=True, check=True)
        if "--transcript" in sys.argv:
            print(f"> {question}\n{run.stdout}\n")
        return run.stdout

    grade(*([ask(q["question"]) for q in QUESTIONS[kind]] for kind in ("known", "unknown")))


if __name__ == "__main__":
    main()
