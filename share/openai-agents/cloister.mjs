// A sandbox client for the OpenAI Agents SDK: what a SandboxAgent runs, reads and changes is
// in a cloister of the project. Copy this file beside your program.
//
//   import { run } from "@openai/agents";
//   import { SandboxAgent } from "@openai/agents/sandbox";
//   import { CloisterClient } from "./cloister.mjs";
//   const agent = new SandboxAgent({ name: "coder" });
//   await run(agent, "Fix the test.", { sandbox: { client: new CloisterClient() } });
//
// The agent itself and its key stay in your program; `cloister mcp serve` carries out, judges
// and records what it asks for. The project is the workspace, at its own path: a manifest with
// files, mounts or users is refused. The cloister ends with the session, and with this process.
import { applyDiff } from "@openai/agents";
import { Manifest } from "@openai/agents/sandbox";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const parts = ["entries", "environment", "users", "groups", "extraPathGrants"];
const images = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

export class CloisterClient {
	backendId = "cloister";

	// project is the folder; flags are words for `cloister mcp serve`, which are those of
	// `cloister run`: --allow, --isolation, -e, …; seconds bounds one command.
	constructor({ project = process.cwd(), flags = [], seconds = 600 } = {}) {
		Object.assign(this, { project, flags, seconds });
	}

	async create({ manifest = {}, snapshot } = {}) {
		const more = parts.filter((part) => Object.keys(manifest[part] ?? {}).length > 0);
		if (snapshot && snapshot.type !== "noop") more.push("snapshot");
		if (more.length > 0) throw new Error(`the workspace of a cloister is the project as it is: no ${more.join(", no ")}`);
		const tools = new Tools(this);
		await tools.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "openai-agents", version: "1" } });
		tools.say({ method: "notifications/initialized" });
		return new CloisterSession(this, tools);
	}
}

// Tools are the tools of one cloister, by the Model Context Protocol on a program's streams.
class Tools {
	#asked = new Map();
	#last = 0;

	constructor({ project, flags }) {
		this.program = spawn("cloister", ["mcp", "serve", ...flags], { cwd: project, stdio: ["pipe", "pipe", "inherit"] });
		this.ended = once(this.program, "close").then(([code, signal]) => code ?? signal, (error) => error.message);
		this.ended.then((why) => {
			for (const { reject } of this.#asked.values()) reject(new Error(`the cloister has ended: ${why}`));
		});
		this.program.stdin.on("error", () => {}); // it has ended, which is said above
		createInterface({ input: this.program.stdout }).on("line", (line) => {
			const { id, result, error } = JSON.parse(line);
			const waits = this.#asked.get(id);
			this.#asked.delete(id);
			error ? waits?.reject(new Error(error.message)) : waits?.resolve(result);
		});
	}

	say(message) { this.program.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n"); }

	async ask(method, params) {
		if (this.program.exitCode !== null) throw new Error("the cloister has ended");
		const id = ++this.#last;
		const answer = new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
		this.say({ id, method, params });
		return answer;
	}

	// call gives what a tool answers as data. What it refuses is an error.
	async call(name, args) {
		const { structuredContent, content } = await this.ask("tools/call", { name, arguments: args });
		if (!structuredContent) throw new Error(content.map((c) => c.text).join("\n"));
		return structuredContent;
	}

	async end() {
		this.program.stdin.end();
		await this.ended;
	}
}

class CloisterSession {
	#tools; #seconds;

	constructor({ project, seconds }, tools) {
		this.#tools = tools;
		this.#seconds = seconds;
		this.state = { manifest: new Manifest({ root: project }), workspaceReady: true };
	}

	#run(argv, cwd, most) {
		return this.#tools.call("exec", { argv, timeout_seconds: this.#seconds, ...(cwd && { cwd }), ...(most && { max_output_bytes: most }) });
	}

	async exec({ cmd, workdir, shell = "/bin/bash", login = true, tty, runAs, maxOutputTokens }) {
		if (tty || runAs) throw new Error(`a command of this cloister has ${tty ? "no terminal" : "one user"}`);
		const most = maxOutputTokens && Math.min(Math.max(maxOutputTokens * 4, 256), 1 << 20); // four bytes a token
		const r = await this.#run([shell, login ? "-lc" : "-c", cmd], workdir, most);
		const said = [r.stdout, r.stderr, r.timed_out && `[ended after ${this.#seconds} s]`].filter(Boolean);
		return { output: said.join("\n"), stdout: r.stdout, stderr: r.stderr, exitCode: r.exit_status, wallTimeSeconds: r.duration_ms / 1000 };
	}

	async execCommand(args) {
		const r = await this.exec(args);
		return `Wall time: ${r.wallTimeSeconds.toFixed(1)} seconds\nProcess exited with code ${r.exitCode}\nOutput:\n${r.output}`;
	}

	// No path is opened on this machine: where a link leads to is asked inside.
	async readFile({ path, maxBytes = Infinity }) {
		const all = [];
		for (let offset = 0, more = true; more && offset < maxBytes;) {
			const part = await this.#tools.call("read_file", { path, offset, limit: Math.min(1 << 20, maxBytes - offset) });
			all.push(Buffer.from(part.content, part.encoding));
			offset += part.bytes;
			more = part.more;
		}
		return new Uint8Array(Buffer.concat(all));
	}

	createEditor() {
		const text = async (path) => Buffer.from(await this.readFile({ path })).toString();
		const write = (path, content) => this.#tools.call("write_file", { path, content });
		const remove = async (path) => {
			const r = await this.#run(["rm", "--", path]);
			if (r.exit_status !== 0) throw new Error(r.stderr);
		};
		return {
			createFile: async ({ path, diff }) => { await write(path, applyDiff("", diff, "create")); },
			updateFile: async ({ path, diff, moveTo = path }) => {
				await write(moveTo, applyDiff(await text(path), diff));
				if (moveTo !== path) await remove(path);
			},
			deleteFile: ({ path }) => remove(path),
		};
	}

	async viewImage({ path }) {
		const mediaType = images[path.split(".").at(-1).toLowerCase()];
		if (!mediaType) throw new Error("unsupported image format");
		return { type: "image", image: { data: await this.readFile({ path, maxBytes: 10 << 20 }), mediaType } };
	}

	async pathExists(path) { return (await this.#run(["test", "-e", path])).exit_status === 0; }
	async directoryExists(path) { return (await this.#run(["test", "-d", path])).exit_status === 0; }
	async running() { return this.#tools.program.exitCode === null; }
	supportsPty() { return false; }
	close() { return this.#tools.end(); }
}
