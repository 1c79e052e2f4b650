#!/usr/bin/env python3
"""Programs that ask a server, against ridge serve: an editor that edits, a command line, measurements, conformance and a
page for a browser, by each that is installed.

    pip install aider-chat          # each wants a folder of its own
    pip install llm llm-ollama
    pip install 'lm-eval[api]'
    pip install guidellm
    pip install llm-comply
    pip install open-webui          # 7 GB
    tests/cross_check/programs_check.py build/release/ridge [-m MODEL.gguf]

The guide writes the answers, unless a model is given. aider's are written by a grammar, which leaves one edit.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import serving

RIDGE = sys.argv[1]
MODEL = sys.argv[sys.argv.index("-m") + 1] if "-m" in sys.argv else None
AIDER_SETTINGS = r"""
- name: openai/MODEL
  edit_format: diff
  use_repo_map: false
  extra_params:
    max_tokens: 400
    extra_body:
      grammar: 'root ::= "hello.py\n```python\n<<<<<<< SEARCH\n    return \"Hello \" + name\n=======\n    return f\"Good day, {name}!\"\n>>>>>>> REPLACE\n```\n"'
"""


def call(arguments, folder, **environment):
    """What a program of the same Python writes to stdout."""
    program = [sys.executable, "-m", *arguments] if isinstance(arguments[0], str) else arguments[0]
    done = subprocess.run(program, cwd=folder, env={**os.environ, "HOME": folder, **environment}, capture_output=True,
                          text=True, timeout=600)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-1500:])
    return done.stdout


def in_folder(check):
    def checked(url, model):
        with tempfile.TemporaryDirectory() as folder:
            check(url, model, folder)

    checked.__name__ = check.__name__
    return checked


@in_folder
def aider(url, model, folder):
    file = pathlib.Path(folder, "hello.py")
    file.write_text('def greet(name):\n    return "Hello " + name\n')
    pathlib.Path(folder, ".aider.model.settings.yml").write_text(AIDER_SETTINGS.replace("MODEL", model))
    call(["aider", "--model", "openai/" + model, "--yes-always", "--no-git", "--no-check-update", "--analytics-disable",
          "--no-show-model-warnings", "--message", "Greet more politely", "hello.py"], folder,
         OPENAI_API_BASE=url + "/v1", OPENAI_API_KEY="none")
    assert file.read_text() == 'def greet(name):\n    return f"Good day, {name}!"\n', file.read_text()


@in_folder
def llm(url, model, folder):
    def ask(*arguments):
        return call(["llm", *arguments], folder, OLLAMA_HOST=url, LLM_USER_PATH=folder)

    named = ["-m", "ollama/" + model, "-o", "num_predict", "60"]
    assert ask("What is ridge?", *named).strip()
    assert ask("What is ridge?", "--no-stream", *named).strip()
    assert ask("And then?", "-c", "-s", "Be brief.").strip()
    schema = json.dumps({"type": "object", "properties": {"days": {"enum": [1, 2]}}, "required": ["days"]})
    assert json.loads(ask("The weather?", "--schema", schema, *named))["days"] in (1, 2)
    pathlib.Path(folder, "extra-openai-models.yaml").write_text(
        f"- {{model_id: chat, model_name: {model}, api_base: {url}/v1, supports_schema: true, supports_tools: true}}\n"
        f"- {{model_id: text, model_name: {model}, api_base: {url}/v1, completion: true}}\n")
    assert ask("What is ridge?", "-m", "chat", "--key", "none").strip()
    assert json.loads(ask("The weather?", "-m", "chat", "--key", "none", "--schema", schema))["days"] in (1, 2)
    ask("Weather?", "-m", "chat", "--key", "none", "--functions", 'def f(city: str):\n    "weather"\n    return city')
    assert ask("ridge is", "-m", "text", "--key", "none", "-o", "max_tokens", "9").strip()


@in_folder
def lm_eval(url, model, folder):
    """Log-likelihoods of texts and of their ends, which are those of the logits that ridge writes."""
    import numpy
    from lm_eval import simple_evaluate
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks import TaskManager

    file = MODEL or pathlib.Path(__file__).parents[2] / "models/guide/guide.gguf"
    api = LocalCompletionsAPI(base_url=url + "/v1/completions", model=model, batch_size=4)
    assert api.tokenizer_backend == "remote"  # its tokens are ridge's

    def measured(tokens, first):
        array = pathlib.Path(folder, "logits.npy")
        ids = ",".join(map(str, tokens))
        subprocess.run([RIDGE, "logits", "-m", file, "--ids", ids, "--out", array], check=True)
        logits = numpy.load(array).astype(numpy.float64)
        top = logits.max(1, keepdims=True)
        logs = logits - top - numpy.log(numpy.exp(logits - top).sum(1, keepdims=True))
        rows = range(first - 1, len(tokens) - 1)
        return sum(logs[i, tokens[i + 1]] for i in rows), all(logs[i].argmax() == tokens[i + 1] for i in rows)

    pairs = [("The capital of France is", " Paris"), ("The capital of France is", " Berlin"),
             ("A quantized model is", " smaller than one that is not."), ("ridge", " runs")]
    asked = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
    for (context, end), (total, greedy) in zip(pairs, api.loglikelihood(asked)):
        begin = api.tok_encode(context)
        wanted, wanted_greedy = measured(begin + api.tok_encode(context + end)[len(begin):], len(begin))
        print(f"  {context}|{end}: {total:.4f}, of the logits {wanted:.4f}")
        assert abs(total - wanted) < 0.02 * abs(wanted) + 0.02 and greedy == wanted_greedy
    pathlib.Path(folder, "items.jsonl").write_text("".join(
        json.dumps({"question": c, "choices": [e, " nothing"], "label": 0}) + "\n" for c, e in pairs))
    task = {"task": "ends", "dataset_path": "json", "test_split": "test", "output_type": "multiple_choice",
            "dataset_kwargs": {"data_files": {"test": str(pathlib.Path(folder, "items.jsonl"))}},
            "doc_to_text": "{{question}}", "doc_to_choice": "choices", "doc_to_target": "label", "target_delimiter": ""}
    results = simple_evaluate(api, tasks=[task], task_manager=TaskManager(), bootstrap_iters=0)["results"]["ends"]
    assert 0 <= results["acc,none"] <= 1
    [text] = api.generate_until([Instance("generate_until", {}, ("ridge is", {"until": ["."], "max_gen_toks": 9}), 0)])
    assert text and "." not in text


@in_folder
def guidellm(url, model, folder):
    prompts = pathlib.Path(folder, "prompts.jsonl")
    prompts.write_text("".join(json.dumps({"prompt": text, "output_tokens_count": 12}) + "\n"
                               for text in 2 * ("What is ridge?", "Why do GPUs wait?", "What is a block?")))
    for route in ("/v1/chat/completions", "/v1/completions"):
        report = pathlib.Path(folder, "report.json")
        call(["guidellm", "run", "--backend", f"kind=openai_http,target={url},model={model},request_format={route}",
              "--profile", "kind=concurrent,streams=2", "--constraint", "kind=max_requests,count=6", "--data",
              f"kind=json_file,path={prompts}", "--output", f"kind=json,path={report}", "--disable-console"], folder,
             HF_HUB_OFFLINE="1")
        requests = json.loads(report.read_text())["benchmarks"][0]["requests"]
        assert len(requests["successful"]) == 6 and not requests["errored"], requests["errored"]
        assert all(request["output_tokens"] == 12 for request in requests["successful"])


# What needs images, and a request that names no model, which this server answers.
NOT_MET = {"open-responses": {"Image Input", "Error Handling"}, "openai-chat": {"Image Input", "Error Handling"},
           "anthropic": {"Image Input"}}


@in_folder
def llm_comply(url, model, folder):
    program = pathlib.Path(sys.executable).with_name("llm-comply")
    for form, not_met in NOT_MET.items():
        done = subprocess.run([program, "-u", url + "/v1", "-m", model, "-k", "none", "--format", form], cwd=folder,
                              capture_output=True, text=True)
        failed = set(re.findall(r"❌ (.*?) \(", done.stdout))
        print(f"  {form}: {re.search('Results: (.*)', done.stdout)[1]}")
        assert failed == not_met, done.stdout


@in_folder
def open_webui(url, model, folder):
    """Its server asks for the models and for chats, by Ollama's routes and by OpenAI's."""
    for api in ("OLLAMA", "OPENAI"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"DATA_DIR": folder, "HOME": folder, "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "x",
                    "OLLAMA_BASE_URL": url, "OPENAI_API_BASE_URL": url + "/v1", "OPENAI_API_KEY": "none",
                    "ENABLE_OLLAMA_API": str(api == "OLLAMA"), "ENABLE_OPENAI_API": str(api == "OPENAI"),
                    "ENABLE_PERSISTENT_CONFIG": "False", "OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1",
                    "RAG_EMBEDDING_ENGINE": "ollama", "RAG_EMBEDDING_MODEL": "", "DO_NOT_TRACK": "true"}
        program = pathlib.Path(sys.executable).with_name("open-webui")
        server = subprocess.Popen([program, "serve", "--host", "127.0.0.1", "--port", str(port)], cwd=folder,
                                  env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ask_open_webui(f"http://127.0.0.1:{port}", model, api.lower(), server)
        finally:
            server.terminate()
            server.wait()


def ask_open_webui(url, model, owner, server):
    token = None

    def ask(path, body=None):
        head = {"Content-Type": "application/json"} | ({"Authorization": "Bearer " + token} if token else {})
        request = urllib.request.Request(url + path, json.dumps(body).encode() if body else None, head)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read().decode()

    while True:
        assert server.poll() is None, "it did not start"
        try:
            ask("/api/version")
            break
        except OSError:
            time.sleep(0.5)
    token = json.loads(ask("/api/v1/auths/signin", {"email": "", "password": ""}))["token"]
    assert (model, owner) in [(m["id"], m["owned_by"]) for m in json.loads(ask("/api/models"))["data"]]
    chat = {"model": model, "messages": [{"role": "user", "content": "What is ridge?"}]}
    whole = json.loads(ask("/api/chat/completions", {**chat, "stream": False}))
    assert whole["choices"][0]["message"]["content"]
    assert '"content":"' in ask("/api/chat/completions", {**chat, "stream": True}).replace(" ", "")


if __name__ == "__main__":
    serving.run([aider, llm, lm_eval, guidellm, llm_comply, open_webui],
                ["--temp", "0", *([] if MODEL else ["-c", "8192"])])
