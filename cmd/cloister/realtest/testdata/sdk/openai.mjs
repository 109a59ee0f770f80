// A program with the OpenAI Agents SDK. Its first word is the sandbox client: the recipe's,
// or the SDK's own, which runs on this machine.
//
// node openai.mjs cloister|host PROMPT
import { run } from "@openai/agents";
import { SandboxAgent } from "@openai/agents/sandbox";
import { UnixLocalSandboxClient } from "@openai/agents/sandbox/local";
import { CloisterClient } from "./cloister.mjs";

const [, , how, prompt] = process.argv;
const client = how === "cloister" ? new CloisterClient() : new UnixLocalSandboxClient();
const agent = new SandboxAgent({ name: "coder", model: "gpt-5" });
console.log((await run(agent, prompt, { maxTurns: 20, sandbox: { client } })).finalOutput);
