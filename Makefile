# SPDX-License-Identifier: MIT
# The front door. Every target is one command of bin/abh, which makes what it needs first.

ABH := bin/abh

export NAME # as it is: not for a shell to read
.DEFAULT_GOAL := help
.PHONY: help deps demo study test test-full report debs aims ablation controls compat mmu organisations itanium bench-model bench-itanium allocators list doctor check-series lint format clean new-workload

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r target text; do printf '%-22s %s\n' "$$target" "$$text"; done

deps: ## get system packages and the Python environment, nothing else
	@$(ABH) --version

study: ## build everything, run the study, write the report
	@$(ABH) study

demo: ## first results in some ten minutes: three programs natively, thp beside abh
	@$(ABH) study --workload sqlite --workload cpython --workload cc1 --environment native --policy thp --policy abh

test: ## the quick stages of the tests: the main claims
	@$(ABH) test

test-full: ## every stage of the tests
	@$(ABH) test --full

report: ## results measured so far to tables, figures and a page
	@$(ABH) report

debs: ## Debian packages: abh itself, its C library beside the system's, its kernel, its Xen and xl
	@$(ABH) debs

mmu: ## TLB misses and page walks of the TLB-bound workloads, by a model of the MMU
	@$(ABH) study --mmu i7-3770 --workload tlb-overflow --workload set-conflict --workload sqlite --workload mcf \
		--policy reg --policy thp --policy abh
	@$(ABH) study --mmu i7-3770 --workload dedup --workload cactus --workload xalan \
		--environment native --environment kvm-hap --environment kvm-shadow \
		--policy reg --policy thp --policy abh
	@for policy in reg thp; do $(ABH) sweep "tlb-overflow@native~$$policy" || exit; done
	@$(ABH) report

organisations: ## other page tables and TLB refills than x86-64's: the same accesses through each, natively and in guests of KVM and Xen
	@$(ABH) organisations
	@$(ABH) report

itanium: ## Linux on our Itanium machine: builds compiler, kernel and machine, boots, counts what a thesis' programs do: about 25 min
	@$(ABH) itanium
	@$(ABH) itanium-study

aims: ## what ABH is to reach, and what it may cost, in programs of size paper, natively: about 45 min
	@$(ABH) study --size paper --environment native --policy reg --policy thp --policy abh

ablation: ## each mechanism of ABH alone, and each left out, natively
	@$(ABH) study --environment native --policy thp --policy abh
	@$(ABH) study --environment native --group halves
	@$(ABH) study --environment native --group ablation

controls: ## what ABH can't do without: guests with no memory in one piece, and no offsets
	@$(ABH) study --environment native --environment kvm-hap --policy thp-paper --policy thp --policy abh
	@$(ABH) study --environment native --environment kvm-hap --group controls
	@$(ABH) study --mmu i7-3770 --workload set-conflict --environment native --policy thp --policy abh
	@$(ABH) study --mmu i7-3770 --workload set-conflict --environment native --group controls --policy abh-no-offset

compat: ## real programs under ABH beside stock, natively and in a guest: some 4 h, estimated from its parts
	@$(ABH) compat

bench-model: ## how fast the model of the MMU is on this machine
	@$(ABH) bench-model

bench-itanium: ## how fast the Itanium machine boots Linux; the last line is JSON
	@$(ABH) itanium --bench

allocators: ## malloc implementations side by side on this machine and its kernel
	@$(ABH) allocators

list: ## workloads, environments and policies, with what each is for
	@$(ABH) list

doctor: ## what this machine offers, and what will be used
	@$(ABH) doctor

check-series: ## the patch series: complete, ordered, documented
	@$(ABH) check-series

lint: ## style of Python, shell, C and Rust
	@$(ABH) lint

format: ## rewrite the sources in that style
	@$(ABH) lint --fix

new-workload: ## write the stub of a workload: make new-workload NAME=my-program
	@test -n "$$NAME" || { echo 'usage: make new-workload NAME=my-program' >&2; exit 2; }
	@$(ABH) new-workload "$$NAME"

clean: ## remove what was made in the checkout, measured results too; the cache stays
	rm -rf analysis/out analysis/measured .pytest_cache .ruff_cache .mypy_cache .hypothesis build abh.egg-info
	find $(wildcard abh tests tools analysis) -name __pycache__ -type d -prune -exec rm -rf {} +
