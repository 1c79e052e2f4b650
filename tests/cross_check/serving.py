"""Starts ridge serve and checks against it each client whose package is installed."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import urllib.request


def run(checks, options=()):
    """Calls each check, a function that is called as its package is imported, with the address and a model's name.
    The command line has the program and further options of serve."""
    server = subprocess.Popen([sys.argv[1], "serve", "--port", "0", *options, *sys.argv[2:]], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    failed = False
    try:
        url = server.stdout.readline().strip()
        with urllib.request.urlopen(url + "/v1/models") as answer:
            model = json.load(answer)["data"][0]["id"]
        for check in checks:
            if not importlib.util.find_spec(check.__name__):
                print(f"{check.__name__}: not installed")
                continue
            try:
                check(url, model)
                print(f"{versions(check.__name__)}: as it expects", flush=True)
            except Exception as error:  # of whatever client
                failed = True
                print(f"{versions(check.__name__)}: {type(error).__name__}: {str(error)[:800]}", flush=True)
    finally:
        server.terminate()
        server.wait()
    sys.exit(failed)


def versions(module):
    packages = sorted(set(importlib.metadata.packages_distributions().get(module, [])))
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages) or module
