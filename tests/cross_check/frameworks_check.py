#!/usr/bin/env python3
"""Frameworks that programs reach a server by, against ridge serve: a chat, a stream, a tool call and an answer of a
schema by each that is installed.

    pip install litellm langchain-openai langchain-anthropic langchain-ollama instructor
    tests/cross_check/frameworks_check.py build/release/ridge [serve's OPTIONS]

The guide writes the answers, so that only their form counts.
"""

import importlib.util
import subprocess
import sys

from pydantic import BaseModel, Field

QUESTION = [{"role": "user", "content": "What is ridge?"}]


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=12)  # the guide knows no end
    days: int = Field(1, ge=1, le=9)


TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city",
                                         "parameters": Weather.model_json_schema()}}


def litellm(url):
    import litellm as api

    for model, base in (("openai/guide", url + "/v1"), ("anthropic/guide", url), ("ollama_chat/guide", url)):
        options = {"model": model, "api_base": base, "api_key": "none", "max_tokens": 100}
        assert api.completion(messages=QUESTION, **options).choices[0].message.content
        assert "".join(part.choices[0].delta.content or "" for part in
                       api.completion(messages=QUESTION, stream=True, **options))
        if not model.startswith("ollama"):  # which takes no tool_choice
            called = api.completion(messages=QUESTION, tools=[TOOL], tool_choice="required", **options)
            Weather.model_validate_json(called.choices[0].message.tool_calls[0].function.arguments)


def langchain(model):
    assert model.invoke("What is ridge?").content
    assert any(part.content for part in model.stream("What is ridge?"))
    Weather.model_validate(model.with_structured_output(Weather).invoke("The weather?").model_dump())


def langchain_openai(url):
    from langchain_openai import ChatOpenAI

    langchain(ChatOpenAI(base_url=url + "/v1", api_key="none", model="guide", max_tokens=60))


def langchain_anthropic(url):
    from langchain_anthropic import ChatAnthropic

    langchain(ChatAnthropic(base_url=url, api_key="none", model="guide", max_tokens=60))


def langchain_ollama(url):
    from langchain_ollama import ChatOllama

    langchain(ChatOllama(base_url=url, model="guide", num_predict=60))


def instructor(url):
    import instructor as api
    import openai

    for mode in (api.Mode.TOOLS, api.Mode.JSON_SCHEMA):
        client = api.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="none"), mode=mode)
        assert isinstance(client.chat.completions.create(model="guide", messages=QUESTION, response_model=Weather,
                                                         max_tokens=100), Weather)


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "--port", "0", *sys.argv[2:]], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    failed = False
    try:
        url = server.stdout.readline().strip()
        for check in (litellm, langchain_openai, langchain_anthropic, langchain_ollama, instructor):
            if not importlib.util.find_spec(check.__name__):
                print(f"{check.__name__}: not installed")
                continue
            try:
                check(url)
                print(f"{check.__name__}: as it expects", flush=True)
            except Exception as error:  # of whatever framework
                failed = True
                print(f"{check.__name__}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    finally:
        server.terminate()
        server.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
