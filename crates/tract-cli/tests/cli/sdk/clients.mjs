// The official Node SDKs as an agent has them: a question whole, its tool result streamed.
// Their servers are those of the variables that `tract record` sets. Prints a line per SDK.
import assert from "node:assert";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are in a folder of their own: SDKS names its `node_modules`.
const require = createRequire(`${process.env.SDKS}/x.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const constructor = (module) => module.default?.default ?? module.default;
const Anthropic = constructor(await load("@anthropic-ai/sdk"));
const OpenAI = constructor(await load("openai"));

const schema = { type: "object", properties: { place: { type: "string" } } };
const question = "How high is the tide? I ask by ";
const options = { apiKey: "key-of-the-test", maxRetries: 0 };

async function askAnthropic() {
  const client = new Anthropic(options);
  const tools = [{ name: "tide", description: "Reads a gauge.", input_schema: schema }];
  const common = { model: "claude-test", max_tokens: 64, tools };
  const messages = [{ role: "user", content: `${question}Messages` }];
  const answer = await client.messages.create({ ...common, messages });
  const [call] = answer.content;
  assert.deepEqual(call.input, { place: "harbor" });
  const result = { type: "tool_result", tool_use_id: call.id, content: "3.2 m" };
  messages.push({ role: "assistant", content: answer.content }, { role: "user", content: [result] });
  const stream = client.messages.stream({ ...common, messages });
  assert.equal(await stream.finalText(), "It is 3.2 m high.");
}

async function askChat() {
  const client = new OpenAI(options);
  const tools = [{ type: "function", function: { name: "tide", parameters: schema } }];
  const messages = [{ role: "user", content: `${question}Chat Completions` }];
  const answer = await client.chat.completions.create({ model: "gpt-test", messages, tools });
  const { message } = answer.choices[0];
  assert.equal(message.tool_calls[0].function.arguments, '{"place":"harbor"}');
  const result = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "3.2 m" };
  messages.push(message, result);
  const chunks = await client.chat.completions.create({
    model: "gpt-test",
    messages,
    tools,
    stream: true,
  });
  let text = "";
  for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? "";
  assert.equal(text, "It is 3.2 m high.");
}

async function askResponses() {
  const client = new OpenAI(options);
  const tools = [{ type: "function", name: "tide", parameters: schema, strict: false }];
  const input = [{ role: "user", content: `${question}Responses` }];
  const answer = await client.responses.create({ model: "gpt-test", input, tools });
  const [call] = answer.output;
  assert.equal(call.arguments, '{"place":"harbor"}');
  input.push(...answer.output);
  input.push({ type: "function_call_output", call_id: call.call_id, output: "3.2 m" });
  const events = await client.responses.create({ model: "gpt-test", input, tools, stream: true });
  let text = "";
  for await (const event of events) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, "It is 3.2 m high.");
}

for (const ask of [askAnthropic, askChat, askResponses]) {
  await ask();
  console.log(ask.name);
}
