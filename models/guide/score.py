#!/usr/bin/env python3
"""Counts correct answers to questions.json: score.py RIDGE MODEL.gguf [--transcript]"""

import json
import pathlib
import re
import subprocess
import sys

QUESTIONS = json.loads((pathlib.Path(__file__).parent / "questions.json").read_text())


def grade(answer, show=print):
    """answer(questions) returns a list of answers. Shows wrong answers and the score of each kind."""
    counts = []
    for kind, questions in QUESTIONS.items():
        answers = answer([q["question"] for q in questions])
        right = [all(re.search(fact, a, re.I) for fact in q.get("facts", ["only know"])) for q, a in zip(questions, answers)]
        for q, a, ok in zip(questions, answers, right):
            if not ok:
                show(f"  MISS {q['question']}\n       {a}")
        counts.append(f"{kind} {sum(right)}/{len(right)}")
    show(", ".join(counts))


def main():
    ridge, model = sys.argv[1:3]

    def ask(question):
        run = subprocess.run([ridge, "run", "-m", model, "--device", "cpu", "--temp", "0", "-n", "120", "-p", question], capture_output=True, text=True, check=True)
        if "--transcript" in sys.argv:
            print(f"> {question}\n{run.stdout}\n")
        return run.stdout

    grade(lambda questions: [ask(question) for question in questions])


if __name__ == "__main__":
    main()
