"""The official Python SDKs as an agent has them: a question whole, its tool result streamed.

Their servers are those of the variables that `tract record` sets. Prints a line per SDK.
"""

import anthropic
import ollama
import openai

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
QUESTION = "How high is the tide? I ask by "


def ask_anthropic():
    client = anthropic.Anthropic(api_key="key-of-the-test", max_retries=0)
    tools = [{"name": "tide", "description": "Reads a gauge.", "input_schema": SCHEMA}]
    common = {"model": "claude-test", "max_tokens": 64, "tools": tools}
    messages = [{"role": "user", "content": QUESTION + "Messages"}]
    answer = client.messages.create(messages=messages, **common)
    call = answer.content[0]
    assert call.type == "tool_use" and call.input == {"place": "harbor"}, answer
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "3.2 m"}
    blocks = [block.model_dump(exclude_none=True) for block in answer.content]
    messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
    with client.messages.stream(messages=messages, **common) as stream:
        text = "".join(stream.text_stream)
    assert text == "It is 3.2 m high.", text


def ask_chat():
    client = openai.OpenAI(api_key="key-of-the-test", max_retries=0)
    tools = [{"type": "function", "function": {"name": "tide", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": QUESTION + "Chat Completions"}]
    answer = client.chat.completions.create(model="gpt-test", messages=messages, tools=tools)
    message = answer.choices[0].message
    call = message.tool_calls[0]
    assert call.function.arguments == '{"place":"harbor"}', answer
    messages.append(message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "3.2 m"})
    chunks = client.chat.completions.create(
        model="gpt-test", messages=messages, tools=tools, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is 3.2 m high.", text


def ask_responses():
    client = openai.OpenAI(api_key="key-of-the-test", max_retries=0)
    tools = [{"type": "function", "name": "tide", "parameters": SCHEMA, "strict": False}]
    items = [{"role": "user", "content": QUESTION + "Responses"}]
    answer = client.responses.create(model="gpt-test", input=items, tools=tools)
    call = answer.output[0]
    assert call.type == "function_call" and call.arguments == '{"place":"harbor"}', answer
    items += [item.model_dump(exclude_none=True) for item in answer.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "3.2 m"})
    stream = client.responses.create(model="gpt-test", input=items, tools=tools, stream=True)
    text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == "It is 3.2 m high.", text


def ask_ollama():
    client = ollama.Client()
    tools = [{"type": "function", "function": {"name": "tide", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": QUESTION + "Ollama"}]
    answer = client.chat(model="local-test", messages=messages, tools=tools)
    assert answer.message.tool_calls[0].function.arguments == {"place": "harbor"}, answer
    messages.append(answer.message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_name": "tide", "content": "3.2 m"})
    parts = client.chat(model="local-test", messages=messages, tools=tools, stream=True)
    text = "".join(part.message.content or "" for part in parts)
    assert text == "It is 3.2 m high.", text


for ask in (ask_anthropic, ask_chat, ask_responses, ask_ollama):
    ask()
    print(ask.__name__)
