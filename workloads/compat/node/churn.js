// SPDX-License-Identifier: MIT
// Objects that live for a while, strings, typed arrays and JSON; then a server that has nothing to do.
"use strict";
const [steps, seed] = process.argv.slice(2).map(Number);
let state = seed;
const draw = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
const map = new Map();
const buffers = [];
let sum = 0;
for (let i = 0; i < steps; i++) {
	const key = `key${draw(20000)}`;
	map.set(key, { key, parts: [i, draw(1000), key.length], text: key.repeat(1 + (i % 5)) });
	if (i % 1000 === 0) {
		const buffer = Buffer.alloc(1 << 20, i & 0xff);
		sum = (sum + buffer[draw(buffer.length)]) >>> 0;
		buffers.push(buffer);
		if (buffers.length > 40) buffers.shift();
	}
	if (i % 5000 === 0) {
		const copy = JSON.parse(JSON.stringify([...map.values()]));
		sum = (sum + copy.length + copy[0].text.length) >>> 0;
	}
}
for (const each of map.values()) sum = (Math.imul(sum, 31) + each.parts[1] + each.text.length) >>> 0;
console.log(`entries: ${map.size}\nanswer: ${sum}`);
setInterval(() => {}, 3600000);
