// The Claude Agent SDK with a cloister. Copy this file beside your program and take one of
// the two: Claude Code itself inside, or Claude Code outside with the cloister's tools.
//
//   import { query } from "@anthropic-ai/claude-agent-sdk";
//   import { inside } from "./cloister.mjs";
//   query({ prompt, options: { ...yours, spawnClaudeCodeProcess: inside({ env: ["ANTHROPIC_API_KEY"] }) } })
//
// flags are those of `cloister run`, and of `cloister mcp serve`: --allow, --isolation, …
import { spawn } from "node:child_process";

// inside starts Claude Code in a cloister of the project (the SDK's cwd). Of the variables
// it gets those named by env, and those that the SDK or your options.env add to this
// process's own. A secret is better bound to its service: `cloister secret`.
export const inside = ({ flags = [], env = [] } = {}) => ({ command, args, cwd, env: all, signal }) => {
	const added = Object.keys(all).filter((name) => all[name] !== undefined && all[name] !== process.env[name]);
	const given = [...new Set([...added, ...env])].flatMap((name) => ["-e", name]);
	return spawn("cloister", ["run", "--agent", "claude", ...flags, ...given, "--", command, ...args], {
		cwd, env: all, signal, stdio: ["pipe", "pipe", "inherit"],
	});
};

// tools are options for a Claude Code that stays outside: none of its own tools, none of
// the project's settings, hooks and MCP servers, which would act on the host; one cloister
// of the project as its only MCP server. publish_port is left to your canUseTool.
export const tools = ({ flags = [] } = {}) => ({
	tools: [],
	settingSources: [],
	strictMcpConfig: true,
	mcpServersDelivery: "initialize", // not on a command line, which others of the machine can read
	mcpServers: { cloister: { type: "stdio", command: "cloister", args: ["mcp", "serve", ...flags] } },
	allowedTools: ["exec", "read_file", "write_file", "list_files", "list_ports"].map((name) => "mcp__cloister__" + name),
});
