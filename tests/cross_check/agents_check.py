#!/usr/bin/env python3
"""Frameworks of agents against ridge serve: turns with calls that are made, their results, hand-overs and answers of a
type, by each that is installed.

    pip install 'pydantic-ai-slim[openai,anthropic]' openai-agents 'smolagents[openai]' mcp
    tests/cross_check/agents_check.py build/release/ridge [serve's OPTIONS]

The guide writes the answers, so that only their form counts. What it would not write by itself, a grammar makes it
write.
"""

import asyncio
import json
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import serving
from pydantic import BaseModel, Field

Short = Annotated[str, Field(max_length=12)]  # the guide knows no end
GBNF_CODE = r'root ::= "I ask.\n<code>\nfinal_answer(forecast(city=\"Bonn\") + str(6 * 7))\n</code>"'


class Weather(BaseModel):
    """The weather of a city."""

    city: Short
    days: int = Field(1, ge=1, le=9)


def pydantic_ai(url, model):
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    called = []

    def forecast(city: Short, unit: Literal["C", "F"] = "C", day: date | None = None, span: timedelta | None = None,
                 extras: dict[Literal["wind", "rain"], float] | None = None) -> str:
        """The forecast of a city.

        Args:
            city: its name
            unit: of temperatures
        """
        called.append(city)
        return "21 degrees"

    openai = OpenAIProvider(base_url=url + "/v1", api_key="none")
    for chat in (OpenAIChatModel(model, provider=openai), OpenAIResponsesModel(model, provider=openai),
                 AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key="none")),
                 OllamaModel(model, provider=OllamaProvider(base_url=url + "/v1"))):
        def agent(**options):
            return Agent(chat, model_settings={"max_tokens": 400}, retries=3, **options)

        assert agent(instructions="Be brief.").run_sync("What is ridge?").output
        assert "".join(agent().run_stream_sync("What is ridge?").stream_text(delta=True))
        outputs = [ToolOutput(Weather)] if isinstance(chat, AnthropicModel) else [ToolOutput(Weather), NativeOutput(Weather)]
        for output in outputs:
            answered = agent(output_type=output, tools=[forecast]).run_sync("The weather?")
            assert isinstance(answered.output, Weather)
        again = agent(tools=[forecast]).run_sync("And then?", message_history=answered.all_messages())
        assert again.output


def agents(url, model):
    import agents as api

    api.set_tracing_disabled(True)
    called = []

    @api.function_tool
    def forecast(city: Short, days: int = 1) -> dict:
        """The forecast of a city."""
        called.append(city)
        return {"degrees": 21}

    client = api.AsyncOpenAI(base_url=url + "/v1", api_key="none")

    async def check(chat):
        def agent(required=False, **options):
            settings = api.ModelSettings(max_tokens=700, tool_choice="required" if required else None)
            return api.Agent(name="asked", model=chat, model_settings=settings, **options)

        assert (await api.Runner.run(agent(instructions="Be brief."), "What is ridge?")).final_output
        count = len(called)
        run = await api.Runner.run(agent(True, tools=[forecast]), "The weather?")
        assert run.final_output and len(called) > count
        following = [*run.to_input_list(), {"role": "user", "content": "And then?"}]
        assert (await api.Runner.run(agent(tools=[forecast]), following)).final_output
        run = api.Runner.run_streamed(agent(True, tools=[forecast]), "The weather?")
        kinds = {event.type async for event in run.stream_events()}
        assert kinds >= {"raw_response_event", "run_item_stream_event"} and run.final_output
        assert isinstance((await api.Runner.run(agent(output_type=Weather), "The weather?")).final_output, Weather)
        helper = api.Agent(name="helper", model=chat, model_settings=api.ModelSettings(max_tokens=700))
        assert (await api.Runner.run(agent(True, handoffs=[helper]), "Help?")).last_agent is helper

    async def check_both():
        await check(api.OpenAIChatCompletionsModel(model=model, openai_client=client))
        await check(api.OpenAIResponsesModel(model=model, openai_client=client))

    asyncio.run(check_both())


def smolagents(url, model):
    import smolagents as api

    @api.tool
    def forecast(city: str) -> str:
        """The forecast of a city.

        Args:
            city: its name
        """
        return f"21 degrees in {city}"

    def chat(**options):
        return api.OpenAIModel(model_id=model, api_base=url + "/v1", api_key="none", max_tokens=300, **options)

    question = [{"role": "user", "content": [{"type": "text", "text": "What is ridge?"}]}]
    assert chat().generate(question).content
    assert "".join(part.content or "" for part in chat().generate_stream(question))
    agent = api.ToolCallingAgent(tools=[forecast], model=chat(), max_steps=2, verbosity_level=0)
    assert agent.run("The weather in Bonn?")
    assert not any(isinstance(getattr(step, "error", None), api.AgentGenerationError) for step in agent.memory.steps)
    coder = api.CodeAgent(tools=[forecast], model=chat(extra_body={"grammar": GBNF_CODE}), max_steps=1, verbosity_level=0)
    assert coder.run("The weather in Bonn?") == "21 degrees in Bonn42"


class Unit(Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Place(BaseModel):
    name: Short
    at: tuple[float, float] | None = None


def mcp(url, model):
    """The tools of a server, as its client lists them, are called with what each API's answers say."""
    import anthropic
    import openai
    from mcp.client.client import Client
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("weather")

    @server.tool()
    def forecast(city: Short, unit: Unit = Unit.CELSIUS, day: date | None = None) -> dict:
        """The forecast."""
        return {"degrees": 21}

    @server.tool()
    def record(place: Place, tags: set[Literal["wet", "dry"]], span: timedelta, id: UUID,
               file: Annotated[Path, Field(json_schema_extra={"maxLength": 12})],
               values: dict[Literal["wind", "rain"], float], raw: Annotated[bytes, Field(max_length=8)],
               limit: Annotated[int, Field(ge=0, multiple_of=5)] = 10) -> str:
        """Keeps what was measured."""
        return "kept"

    of_openai = openai.OpenAI(base_url=url + "/v1", api_key="none")
    of_anthropic = anthropic.Anthropic(base_url=url, api_key="none")
    question = [{"role": "user", "content": "The weather?"}]

    def chat(tools, name):
        functions = [{"type": "function", "function": {"name": t.name, "parameters": t.input_schema}} for t in tools]
        answer = of_openai.chat.completions.create(model=model, messages=question, tools=functions, max_tokens=900,
                                                   tool_choice={"type": "function", "function": {"name": name}})
        function = answer.choices[0].message.tool_calls[0].function
        return function.name, json.loads(function.arguments)

    def responses(tools, name):
        functions = [{"type": "function", "name": t.name, "parameters": t.input_schema, "strict": False} for t in tools]
        answer = of_openai.responses.create(model=model, input=question, tools=functions, max_output_tokens=900,
                                            tool_choice={"type": "function", "name": name})
        return answer.output[-1].name, json.loads(answer.output[-1].arguments)

    def messages(tools, name):
        functions = [{"name": t.name, "input_schema": t.input_schema} for t in tools]
        answer = of_anthropic.messages.create(model=model, messages=question, tools=functions, max_tokens=900,
                                              tool_choice={"type": "tool", "name": name})
        return answer.content[-1].name, answer.content[-1].input

    async def check():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            for ask in (chat, responses, messages):
                for tool in tools:
                    name, arguments = ask(tools, tool.name)
                    result = await client.call_tool(name, arguments)
                    assert name == tool.name and not result.is_error, (ask.__name__, name, arguments, result)

    asyncio.run(check())


if __name__ == "__main__":
    serving.run([pydantic_ai, agents, smolagents, mcp], ["-c", "8192"])  # their prompts are longer than the guide's texts
