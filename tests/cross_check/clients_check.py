#!/usr/bin/env python3
"""The official clients of OpenAI, Anthropic and Ollama against ridge serve: what each asks is answered in a form that its
own types accept.

    pip install openai anthropic ollama
    tests/cross_check/clients_check.py build/nocuda/ridge MODEL.gguf

MODEL.gguf: any llama model with a tokenizer; a copy of it that names a pooling embeds texts. The guide writes them.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import anthropic
import ollama
import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

GUIDE = pathlib.Path(__file__).parents[2] / "models/guide/guide.gguf"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"type": "string", "enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": PARAMETERS}


class Kind(BaseModel):
    kind: str
    count: int


def with_pooling(source, target):
    """A copy of a GGUF file with two further keys in front, together as long as tensors' alignment."""
    data = source.read_bytes()
    magic, version, tensors, keys = struct.unpack("<IIQQ", data[:24])

    def text(s):
        return struct.pack("<Q", len(s)) + s

    pooling = text(b"llama.pooling_type") + struct.pack("<II", 4, 3)
    name = text(b"general.description") + struct.pack("<I", 8)
    filler = b"x" * (-(len(pooling) + len(name) + 8) % 32)
    target.write_bytes(struct.pack("<IIQQ", magic, version, tensors, keys + 2) + pooling + name + text(filler) + data[24:])


def check_call(name, arguments):
    assert name == "get_weather", name
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("C", "F"), arguments


def check_openai_chat(client):
    ask = {"model": "guide", "messages": [{"role": "user", "content": "What is ridge?"}], "temperature": 0, "max_tokens": 30}
    raw = client.chat.completions.with_raw_response.create(**ask)
    ChatCompletion.model_validate(json.loads(raw.http_response.text))
    whole = raw.parse().choices[0].message.content
    streamed = "".join(
        chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**ask, stream=True)
    )
    assert whole and whole == streamed

    tools = [{"type": "function", "function": {**FUNCTION, "strict": True}}]
    ask.update(tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=400)
    message = client.chat.completions.create(**ask).choices[0].message
    call = message.tool_calls[0]
    check_call(call.function.name, json.loads(call.function.arguments))
    with client.chat.completions.stream(**ask) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert final.function.arguments == call.function.arguments
    more = ask["messages"] + [message, {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}]
    after = client.chat.completions.create(**{**ask, "messages": more, "tool_choice": "auto", "max_tokens": 20})
    assert after.choices[0].finish_reason in ("stop", "length", "tool_calls")

    del ask["tools"], ask["tool_choice"], ask["parallel_tool_calls"]
    assert isinstance(client.chat.completions.parse(**ask, response_format=Kind).choices[0].message.parsed, Kind)
    parsed = client.chat.completions.parse(**ask, tools=tools, response_format=Kind).choices[0].message
    assert parsed.parsed or parsed.tool_calls
    try:
        client.chat.completions.create(**{**ask, "temperature": -1})
        raise AssertionError("a temperature below 0 was taken")
    except openai.BadRequestError as error:
        assert error.param == "temperature", error


def check_openai_responses(client):
    tools = [{"type": "function", **FUNCTION, "strict": True}]
    ask = {"model": "guide", "input": "How is the weather?", "temperature": 0, "max_output_tokens": 400}
    raw = client.responses.with_raw_response.create(**ask)
    Response.model_validate(json.loads(raw.http_response.text))
    assert raw.parse().output_text
    ask.update(tools=tools, tool_choice="required", parallel_tool_calls=False)
    raw = client.responses.with_raw_response.create(**ask)
    Response.model_validate(json.loads(raw.http_response.text))
    first = raw.parse()
    call = first.output[-1]
    assert call.type == "function_call"
    check_call(call.name, json.loads(call.arguments))
    event_type = TypeAdapter(ResponseStreamEvent)
    for event in client.responses.create(**ask, stream=True):
        event_type.validate_python(event.to_dict())
    with client.responses.stream(**ask) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in events
    assert final.output[-1].arguments == call.arguments
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
    following = {"model": "guide", "tools": tools, "temperature": 0, "max_output_tokens": 20}
    by_id = client.responses.create(**following, previous_response_id=first.id, input=[output])
    again = client.responses.create(**following, input=[{"role": "user", "content": ask["input"]}, *first.output, output])
    assert by_id.output_text == again.output_text
    parsed = client.responses.parse(model="guide", input="Which kind?", text_format=Kind, temperature=0)
    assert isinstance(parsed.output_parsed, Kind)


def check_openai_embeddings(client):
    texts = ["the rain", "in Spain"]
    packed = client.embeddings.create(model="vectors", input=texts)  # the client asks for base64
    plain = client.embeddings.create(model="vectors", input=texts, encoding_format="float")
    for a, b in zip(packed.data, plain.data):
        assert len(a.embedding) == len(b.embedding)
        assert max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-6
    short = client.embeddings.create(model="vectors", input=[[1, 2, 3]], dimensions=8).data[0].embedding
    assert len(short) == 8 and abs(sum(x * x for x in short) - 1) < 1e-4
    assert {model.id for model in client.models.list()} == {"guide", "vectors"}
    assert client.models.retrieve("guide").id == "guide"


def check_anthropic(client):
    ask = {"model": "guide", "max_tokens": 400, "extra_body": {"temperature": 0}, "messages": [{"role": "user", "content": "Weather?"}]}
    whole = client.messages.create(**ask).content[0].text
    with client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == whole
    tools = [{"name": FUNCTION["name"], "description": FUNCTION["description"], "input_schema": PARAMETERS}]
    ask.update(tools=tools, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    message = client.messages.create(**ask)
    assert message.stop_reason == "tool_use"
    check_call(message.content[-1].name, message.content[-1].input)
    with client.messages.stream(**ask) as stream:
        assert stream.get_final_message().content[-1].input == message.content[-1].input
    result = {"type": "tool_result", "tool_use_id": message.content[-1].id, "content": "21 degrees"}
    more = [*ask["messages"], {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    client.messages.create(**{**ask, "messages": more, "tool_choice": {"type": "auto"}, "max_tokens": 20})
    assert client.messages.count_tokens(model="guide", messages=ask["messages"]).input_tokens > 0
    schema = {"type": "json_schema", "schema": Kind.model_json_schema()}
    answer = client.messages.create(
        model="guide", max_tokens=200, messages=ask["messages"], output_config={"format": schema}, extra_body={"temperature": 0}
    )
    Kind.model_validate_json(answer.content[0].text)
    try:
        client.messages.create(**{**ask, "messages": []})
        raise AssertionError("no messages were taken")
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error", error.body


def check_ollama(client):
    options = {"temperature": 0, "num_predict": 400}
    messages = [{"role": "user", "content": "How is the weather?"}]
    whole = client.chat("guide", messages, options=options).message.content
    assert whole == "".join(part.message.content for part in client.chat("guide", messages, options=options, stream=True))
    tools = [{"type": "function", "function": FUNCTION}]
    for part in client.chat("guide", messages, tools=tools, options=options, stream=True):
        assert part.model == "guide"
    answer = client.chat("guide", messages, options=options, format=Kind.model_json_schema())
    Kind.model_validate_json(answer.message.content)
    assert client.generate("guide", "What is ridge?", options=options).response
    assert len(client.embed("vectors", ["a", "b"]).embeddings) == 2
    assert len(client.embed("vectors", "a", dimensions=8).embeddings[0]) == 8
    assert client.embeddings("vectors", "a").embedding
    assert {model.model for model in client.list().models} == {"guide", "vectors"}
    assert client.show("vectors").capabilities == ["embedding"]
    assert "tools" in client.show("guide").capabilities
    assert len(client.ps().models) == 2
    try:
        client.chat("nobody", messages)
        raise AssertionError("a model that is not there answered")
    except ollama.ResponseError as error:
        assert error.status_code == 404, error


def main():
    ridge, model = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(GUIDE, pathlib.Path(folder) / "guide.gguf")
        with_pooling(model, pathlib.Path(folder) / "vectors.gguf")
        server = subprocess.Popen(
            [ridge, "serve", "--models-dir", folder, "--port", "0", "--device", "cpu", "--threads", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            address = server.stdout.readline().strip()
            of_openai = openai.OpenAI(base_url=address + "/v1", api_key="none", timeout=300)
            for check, client in (
                (check_openai_chat, of_openai),
                (check_openai_responses, of_openai),
                (check_openai_embeddings, of_openai),
                (check_anthropic, anthropic.Anthropic(base_url=address, api_key="none", timeout=300)),
                (check_ollama, ollama.Client(address, timeout=300)),
            ):
                check(client)
                print(f"{check.__name__[6:]}: as its client expects", flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
