# SPDX-License-Identifier: MIT
# Counts words that a generator draws, in an array that grows, sorts what it has, and forgets half.
BEGIN {
	state = seed
	for (i = 0; i < words; i++) {
		state = (state * 69069 + 1) % 4294967296
		key = "word" int(state / 512) % keys
		count[key]++
		line[key] = line[key] " " i
	}
	number = asorti(count, sorted)
	for (i = 1; i <= number; i++) {
		sum = (sum * 31 + count[sorted[i]] * length(line[sorted[i]])) % 2147483647
		if (i % 2) {
			delete count[sorted[i]]
			delete line[sorted[i]]
		}
	}
	for (key in count)
		left++
	printf "keys: %d\nanswer: %d %d\n", number, left, sum
}
