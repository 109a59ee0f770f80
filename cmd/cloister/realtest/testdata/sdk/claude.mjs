// A program with the Claude Agent SDK. Its first word is which part of the recipe it uses;
// "host" uses none: the agent's own tools act on this machine.
//
// node claude.mjs inside|tools|host CLAUDE PROMPT
import { query } from "@anthropic-ai/claude-agent-sdk";
import { inside, tools } from "./cloister.mjs";

const [, , how, claude, prompt] = process.argv;
const options = { pathToClaudeCodeExecutable: claude, permissionMode: "dontAsk", settingSources: [], env: { ...process.env, CLAUDE_CODE_MAX_RETRIES: "0" } };
const allowedTools = ["Bash", "Read", "Edit", "Write"];
const ways = {
	inside: () => ({ allowedTools, spawnClaudeCodeProcess: inside({ env: ["ANTHROPIC_API_KEY"] }) }),
	tools: () => tools(),
	host: () => ({ allowedTools }),
};
for await (const m of query({ prompt, options: { ...options, ...ways[how]() } })) {
	if (m.type === "result") console.log(m.result ?? JSON.stringify(m));
}
