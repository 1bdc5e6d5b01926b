// SPDX-License-Identifier: MIT
// Solves a seeded minimum-cost flow problem by LEMON's network simplex and proves the answer optimal.
#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

namespace
{

using Graph = lemon::SmartDigraph;
using Simplex = lemon::NetworkSimplex<Graph, std::int64_t, std::int64_t>;

// Arbitrary: ranges of the order of 429.mcf's inputs; detours cost more than any path of drawn arcs.
constexpr std::int64_t COST_MAX = 10000, CAPACITY_MAX = 100, SUPPLY_MAX = 50, DETOUR_COST = 50 * COST_MAX;

struct Usage : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct Problem {
	Graph graph;
	Graph::NodeMap<std::int64_t> supply{ graph };
	Graph::ArcMap<std::int64_t> capacity{ graph }, cost{ graph };
};

// SplitMix64: the standard library's distributions differ between libraries, this does not.
class Random
{
	std::uint64_t state;

      public:
	explicit Random(std::uint64_t seed) : state(seed)
	{
	}

	std::int64_t below(std::int64_t limit)
	{
		std::uint64_t x = state += 0x9e3779b97f4a7c15;
		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
		x = (x ^ x >> 27) * 0x94d049bb133111eb;
		return (x ^ x >> 31) % limit;
	}
};

std::map<std::string, std::uint64_t> parse(int argc, char **argv)
{
	std::map<std::string, std::uint64_t> value{ { "--nodes", 0 }, { "--arcs", 0 }, { "--seed", 0 } };
	const std::string expected = "expected --nodes N --arcs N --seed N";

	if (argc != 7)
		throw Usage("got " + std::to_string(argc - 1) + " words, " + expected);
	for (int i = 1; i < argc; i += 2) {
		const std::string text = argv[i + 1];

		if (!value.count(argv[i]))
			throw Usage("unknown option '" + std::string(argv[i]) + "'; " + expected);
		if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
			throw Usage(std::string(argv[i]) + ": got '" + text + "', expected a number of up to 9 digits");
		value[argv[i]] = std::stoull(text);
	}
	if (value["--nodes"] < 2 || !value["--arcs"])
		throw Usage("got fewer than 2 nodes or 1 arc; " + expected);
	return value;
}

// Random arcs between random nodes. A ring of detours, wide but costly, makes every problem feasible.
void generate(Problem &problem, std::int64_t nodes, std::int64_t arcs, std::uint64_t seed)
{
	Random random(seed);
	auto add = [&](std::int64_t from, std::int64_t to, std::int64_t capacity, std::int64_t cost) {
		const auto arc = problem.graph.addArc(Graph::nodeFromId(from), Graph::nodeFromId(to));
		problem.capacity[arc] = capacity;
		problem.cost[arc] = cost;
	};

	for (std::int64_t i = 0; i < nodes; i++)
		problem.graph.addNode();
	for (std::int64_t i = 0; i < nodes; i++)
		add(i, (i + 1) % nodes, nodes * SUPPLY_MAX, DETOUR_COST);
	for (std::int64_t i = 0; i < arcs; i++) {
		const std::int64_t from = random.below(nodes), to = random.below(nodes);
		add(from, to, 1 + random.below(CAPACITY_MAX), 1 + random.below(COST_MAX));
	}
	for (std::int64_t i = 0; i + 1 < nodes; i += 2) {
		const std::int64_t amount = random.below(SUPPLY_MAX + 1);
		problem.supply[Graph::nodeFromId(i)] = amount;
		problem.supply[Graph::nodeFromId(i + 1)] = -amount;
	}
}

void require(bool holds, const std::string &what, std::int64_t id)
{
	if (!holds)
		throw std::runtime_error("not optimal: " + what + " fails at " + std::to_string(id));
}

// Complementary slackness: a feasible flow is optimal if, with the potentials, an arc that still has room
// cannot have a negative reduced cost, nor a used one a positive.
void verify(const Problem &problem, const Simplex &simplex)
{
	const Graph &graph = problem.graph;
	Graph::NodeMap<std::int64_t> excess(graph, 0);
	std::int64_t total = 0;

	for (Graph::ArcIt arc(graph); arc != lemon::INVALID; ++arc) {
		const std::int64_t flow = simplex.flow(arc);
		const std::int64_t reduced =
			problem.cost[arc] + simplex.potential(graph.source(arc)) - simplex.potential(graph.target(arc));

		require(flow >= 0 && flow <= problem.capacity[arc], "capacity of arc", graph.id(arc));
		require(flow == problem.capacity[arc] || reduced >= 0, "slackness of arc", graph.id(arc));
		require(flow == 0 || reduced <= 0, "slackness of arc", graph.id(arc));
		excess[graph.source(arc)] += flow;
		excess[graph.target(arc)] -= flow;
		total += flow * problem.cost[arc];
	}
	for (Graph::NodeIt node(graph); node != lemon::INVALID; ++node)
		require(excess[node] == problem.supply[node], "balance of node", graph.id(node));
	require(total == simplex.totalCost(), "cost, which should be the solver's,", total);
}

} // namespace

int main(int argc, char **argv)
try {
	auto value = parse(argc, argv);
	Problem problem;

	generate(problem, value["--nodes"], value["--arcs"], value["--seed"]);
	Simplex simplex(problem.graph);
	simplex.upperMap(problem.capacity).costMap(problem.cost).supplyMap(problem.supply);
	if (simplex.run() != Simplex::OPTIMAL)
		throw std::runtime_error("the solver finds no optimum, though a ring of detours makes one exist");
	verify(problem, simplex);
	std::cout << "nodes: " << lemon::countNodes(problem.graph) << "\narcs: " << lemon::countArcs(problem.graph)
		  << "\nanswer: " << simplex.totalCost<std::int64_t>() << "\n";
	return 0;
} catch (const Usage &error) {
	std::cerr << "flow: " << error.what() << "\n";
	return 2;
} catch (const std::exception &error) {
	std::cerr << "flow: " << error.what() << "\n";
	return 1;
}
