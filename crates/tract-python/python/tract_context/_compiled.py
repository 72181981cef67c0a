"""Compiled contexts, and requests to providers."""

import json
from typing import Any

from tract_context import _native


class Params:
    """A request, or a part of one, in a provider's form.

    `json` is the text that tract made, with every number and argument as recorded; `body` is the same
    as dicts and lists, for a vendor's client: `client.chat.completions.create(**params.body)`.
    """

    __slots__ = ("_params",)

    def __init__(self, params: _native.Params) -> None:
        """Wrap the native object; `Compiled.form` does this."""
        self._params = params

    @property
    def json(self) -> str:
        """The body as JSON text."""
        return self._params.json()

    @property
    def body(self) -> Any:
        """The body as dicts and lists: a new object for each access."""
        return json.loads(self._params.json())

    @property
    def repairs(self) -> list[str]:
        """The differences between the sent and the recorded content, for people."""
        return self._params.repairs

    def why_miss(self, later: "Params") -> dict[str, Any] | None:
        """Return where a later request stops to share this request's cached prefix.

        `same_blocks` is the number of equal blocks and `same_bytes` their size in bytes. `None` if
        the shorter request is a prefix of the longer one.
        """
        text = self._params.why_miss(later._params)
        miss: dict[str, Any] | None = None if text is None else json.loads(text)
        return miss


class Compiled:
    """A context: what the model sees at a commit. It is plain data, and stays valid after `close`."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: _native.Compiled) -> None:
        """Wrap the native object; `Tract.compile` does this."""
        self._compiled = compiled

    @property
    def head(self) -> str | None:
        """The id of the compiled commit; `None` for a branch without commits."""
        return self._compiled.head

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages in tract's own form, each with the id of its commit."""
        messages: list[dict[str, Any]] = self.form("messages").body["messages"]
        return messages

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The active tools, as given."""
        return [json.loads(schema) for _, _, schema in self._compiled.tools]

    @property
    def tool_texts(self) -> list[str]:
        """The JSON texts of the active tools, byte for byte as given."""
        return [schema for _, _, schema in self._compiled.tools]

    @property
    def commit_count(self) -> int:
        """Number of commits that lead to the context."""
        return self._compiled.commit_count

    @property
    def token_count(self) -> int:
        """Number of tokens of the messages and tools, by the counter that `token_source` names."""
        return self._compiled.token_count[0]

    @property
    def token_source(self) -> str:
        """The name of the token counter."""
        return self._compiled.token_count[1]

    def __len__(self) -> int:
        """Return the number of messages."""
        return self._compiled.message_count

    def form(self, name: str, *, pairing: str | None = None, strict_tools: bool = False) -> Params:
        """Compile the context to any form, such as `"openai-params"`.

        `pairing` is the treatment of calls without results, and of results without calls: `"repair"`
        (default for requests), `"strict"` or `"keep"`. With `strict_tools`, the provider enforces the
        schemas that can be enforced.

        Raises `TractError`: `unknown_form`; `unpaired` with strict pairing.
        """
        return Params(self._compiled.form(name, pairing, strict_tools))

    def to_openai(self) -> list[dict[str, Any]]:
        """Return the messages in OpenAI's shape as recorded, without repairs."""
        messages: list[dict[str, Any]] = self.form("openai").body
        return messages

    def to_anthropic(self) -> dict[str, Any]:
        """Return `{system, messages}` in Anthropic's shape."""
        return self._body("anthropic", {})

    def to_openai_params(self, **members: Any) -> dict[str, Any]:
        """Return a request to OpenAI's Chat Completions: `create(**compiled.to_openai_params())`.

        Keyword arguments such as `model` are set in the request, in place of recorded ones.
        """
        return self._body("openai-params", members)

    def to_responses_params(self, **members: Any) -> dict[str, Any]:
        """Return a request to OpenAI's Responses, with these members set."""
        return self._body("responses-params", members)

    def to_anthropic_params(self, **members: Any) -> dict[str, Any]:
        """Return a request to Anthropic's Messages, with these members set, such as `max_tokens`."""
        return self._body("anthropic-params", members)

    def to_ollama_params(self, **members: Any) -> dict[str, Any]:
        """Return a request to Ollama's own chat API, with these members set."""
        return self._body("ollama-params", members)

    def to_gemini_params(self, **members: Any) -> dict[str, Any]:
        """Return a request to Gemini's `generateContent`, with these members set."""
        return self._body("gemini-params", members)

    def _body(self, form: str, members: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = self.form(form).body
        return {**body, **members}
