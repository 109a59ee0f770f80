// An editor that speaks ACP by the protocol's own library and grants an agent all that it
// asks for: it opens files and runs commands on the host. What it was asked, and what the
// agent did, is one JSON on its stdout.
//
// node editor.mjs SDK PROMPT COMMAND [WORD...]
import { spawn, execSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const [, , sdk, prompt, ...command] = process.argv;
const acp = await import(sdk);
const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const said = { powers: [], permissions: [], updates: [], text: "" };
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const power = (what, run) => async (params) => { said.powers.push(what + " " + JSON.stringify(params)); return run(params); };

const editor = new acp.ClientSideConnection(() => ({
	requestPermission: async (params) => {
		said.permissions.push(params.toolCall.title ?? "");
		const option = params.options.find((o) => o.kind.startsWith("allow")) ?? params.options[0];
		return { outcome: { outcome: "selected", optionId: option.optionId } };
	},
	readTextFile: power("read", (p) => ({ content: readFileSync(p.path, "utf8") })),
	writeTextFile: power("write", (p) => { writeFileSync(p.path, p.content); return {}; }),
	createTerminal: power("terminal", (p) => { execSync([p.command, ...(p.args ?? [])].join(" ")); return { terminalId: "1" }; }),
	sessionUpdate: async ({ update }) => {
		said.updates.push(update.sessionUpdate);
		if (update.sessionUpdate === "agent_message_chunk") said.text += update.content.text ?? "";
	},
}), stream);
said.initialized = await editor.initialize({
	protocolVersion: acp.PROTOCOL_VERSION,
	clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true, _meta: { terminal_output: true } },
});
const session = await editor.newSession({ cwd: process.cwd(), mcpServers: [] });
said.ended = await editor.prompt({ sessionId: session.sessionId, prompt: [{ type: "text", text: prompt }] });
child.stdin.end();
await new Promise((done) => (child.exitCode === null ? child.on("exit", done) : done()));
said.status = child.exitCode;
console.log(JSON.stringify(said));
process.exit(0);
