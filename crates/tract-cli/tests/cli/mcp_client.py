"""A scripted agent that knows a repository only through the official MCP client.

    python3 mcp_client.py TRACT [ARGUMENT...]     starts `TRACT ARGUMENT... mcp serve` and asks it
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

# What is asked, the words that an agent would search for, and what the answer has to contain.
QUESTIONS = [
    ("Which gauge reads too high?", "north gauge reads high", "3 to 4 cm too high"),
    ("Which datum does it use?", "gauges north datum", "chart datum of 1992"),
    ("Which moorings need new chain?", "moorings chain", "A2 and B7"),
]


async def answer(session, words):
    """Searches, then reads around the best hits."""
    found = await session.call_tool("search", {"query": words, "limit": 5})
    texts = [found.content[0].text]
    for hit in structured(found)["hits"]:
        for branch in hit["branches"][:1]:
            opened = await session.call_tool("open", {"revision": branch, "before": 100})
            texts.append(opened.content[0].text)
    return "\n".join(texts)


def structured(result):
    value = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    return value if value is not None else json.loads(result.content[0].text)


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=[*sys.argv[2:], "mcp", "serve"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["search", "open", "list", "diff", "why_miss", "expand"], names
        for question, words, expected in QUESTIONS:
            told = await answer(session, words)
            assert expected in told, (question, told)
        resources = (await session.list_resources()).resources
        assert resources, "there are conversations"
        read = await session.read_resource(resources[0].uri)
        document = json.loads(read.contents[0].text)
        assert document["messages"], document
        templates = await session.list_resource_templates()
        assert templates, templates
        refused = await session.call_tool("open", {"revision": "no-such-branch"})
        assert getattr(refused, "is_error", None) or getattr(refused, "isError", None), refused
    print("all questions answered")


asyncio.run(main())
