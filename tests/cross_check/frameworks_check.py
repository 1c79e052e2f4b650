#!/usr/bin/env python3
"""Frameworks that programs reach a server by, against ridge serve: a chat, a stream, a tool call and an answer of a
schema by each that is installed.

    pip install litellm langchain-openai langchain-anthropic langchain-ollama instructor
    pip install llama-index-llms-openai-like llama-index-llms-ollama   # these and dspy want folders of their own
    pip install dspy
    tests/cross_check/frameworks_check.py build/release/ridge [serve's OPTIONS]

The guide writes the answers, so that only their form counts.
"""

import asyncio
import json
from typing import Literal

import serving
from pydantic import BaseModel, Field

QUESTION = [{"role": "user", "content": "What is ridge?"}]


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=12)  # the guide knows no end
    days: int = Field(1, ge=1, le=9)


TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city",
                                         "parameters": Weather.model_json_schema()}}


def litellm(url, model):
    import litellm as api

    for name, base in (("openai/" + model, url + "/v1"), ("anthropic/" + model, url), ("ollama_chat/" + model, url)):
        options = {"model": name, "api_base": base, "api_key": "none", "max_tokens": 100}
        assert api.completion(messages=QUESTION, **options).choices[0].message.content
        assert "".join(part.choices[0].delta.content or "" for part in
                       api.completion(messages=QUESTION, stream=True, **options))
        if not name.startswith("ollama"):  # which takes no tool_choice
            called = api.completion(messages=QUESTION, tools=[TOOL], tool_choice="required", **options)
            Weather.model_validate_json(called.choices[0].message.tool_calls[0].function.arguments)


def langchain(chat):
    assert chat.invoke("What is ridge?").content
    assert any(part.content for part in chat.stream("What is ridge?"))
    Weather.model_validate(chat.with_structured_output(Weather).invoke("The weather?").model_dump())


def langchain_openai(url, model):
    from langchain_openai import ChatOpenAI

    langchain(ChatOpenAI(base_url=url + "/v1", api_key="none", model=model, max_tokens=60))


def langchain_anthropic(url, model):
    from langchain_anthropic import ChatAnthropic

    langchain(ChatAnthropic(base_url=url, api_key="none", model=model, max_tokens=60))


def langchain_ollama(url, model):
    from langchain_ollama import ChatOllama

    langchain(ChatOllama(base_url=url, model=model, num_predict=60))


def instructor(url, model):
    import instructor as api
    import openai

    for mode in (api.Mode.TOOLS, api.Mode.JSON_SCHEMA):
        client = api.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="none"), mode=mode)
        assert isinstance(client.chat.completions.create(model=model, messages=QUESTION, response_model=Weather,
                                                         max_tokens=100), Weather)


def llama_index(url, model):
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.ollama import Ollama
    from llama_index.llms.openai_like import OpenAILike, OpenAILikeResponses

    called = []

    def forecast(weather: Weather) -> str:
        """The forecast of a city."""
        called.append(weather)
        return "21 degrees"

    tool = FunctionTool.from_defaults(forecast)
    openai = {"model": model, "api_base": url + "/v1", "api_key": "none", "is_function_calling_model": True}
    question = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="What is ridge?")]
    for chat in (OpenAILike(**openai, is_chat_model=True, max_tokens=200),
                 OpenAILike(**openai, is_chat_model=True, max_tokens=200, should_use_structured_outputs=True),
                 OpenAILikeResponses(**openai, is_chat_model=True, max_output_tokens=200),
                 Ollama(model=model, base_url=url, request_timeout=300, additional_kwargs={"num_predict": 200})):
        assert chat.chat(question).message.content
        assert "".join(part.delta or "" for part in chat.stream_chat(question))
        assert isinstance(chat.as_structured_llm(Weather).chat(question).raw, Weather)
        if isinstance(chat, Ollama):  # which asks for no call
            continue
        assert chat.get_tool_calls_from_response(chat.chat_with_tools([tool], "The weather?", tool_required=True))

        async def agent():
            return await FunctionAgent(tools=[tool], llm=chat, initial_tool_choice="forecast").run("The weather?",
                                                                                                   max_iterations=4)

        count = len(called)
        assert str(asyncio.run(agent())) and len(called) > count
    texts = OpenAILike(**openai, is_chat_model=False, max_tokens=10)
    assert texts.complete("ridge is").text
    assert "".join(part.delta or "" for part in texts.stream_complete("ridge is"))


def dspy(url, model):
    import dspy as api

    class Judge(api.Signature):
        """Judge the text."""

        text: str = api.InputField()
        mood: Literal["good", "bad"] = api.OutputField()

    # The guide does not write what the adapters' prompts describe, so that a grammar holds its answers to it.
    texts = 'root ::= "[[ ## mood ## ]]\\n" ("good" | "bad") "\\n\\n[[ ## completed ## ]]"'
    schema = json.dumps({"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"]})
    options = {"api_key": "none", "max_tokens": 200, "cache": False}
    for name, base in (("openai/" + model, url + "/v1"), ("ollama_chat/" + model, url), ("anthropic/" + model, url)):
        assert api.LM(name, api_base=base, **options)("What is ridge?")[0]
    for adapter, extra in ((api.ChatAdapter(), {"grammar": texts}), (api.JSONAdapter(), {"json_schema": schema})):
        lm = api.LM("openai/" + model, api_base=url + "/v1", extra_body=extra, **options)
        with api.context(lm=lm, adapter=adapter):
            assert api.Predict(Judge)(text="All is well.").mood in ("good", "bad")
    assert api.LM("text-completion-openai/" + model, api_base=url + "/v1", model_type="text", **options)("ridge is")
    assert api.LM("openai/" + model, api_base=url + "/v1", model_type="responses", **options)("What is ridge?")


if __name__ == "__main__":
    serving.run([litellm, langchain_openai, langchain_anthropic, langchain_ollama, instructor, llama_index, dspy])
