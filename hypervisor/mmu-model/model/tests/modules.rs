// SPDX-License-Identifier: MIT
//! The modules lie in layers: each uses those below it only, so that none can be understood or replaced only together
//! with what uses it. The order here is the drawing in the README.

use std::fs;
use std::path::Path;

/// From the bottom to the top.
const LAYERS: [&[&str]; 8] = [
    &["address", "assoc", "numbered", "tag"],
    &["cache", "context", "invalidate", "memory", "walk"],
    &["counters", "cpu", "tlb"],
    &["estimate", "organisation", "perf", "shortcut"],
    &["x86"],
    &["synthetic"],
    &["mmu"],
    &["lib"],
];

/// A module's own file, and those of its parts, if it has any.
fn text_of(source: &Path, module: &str) -> String {
    let parts = fs::read_dir(source.join(module)).into_iter().flatten().map(|part| part.unwrap().path());
    let files = std::iter::once(source.join(format!("{module}.rs"))).chain(parts);
    files.map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn each_module_uses_only_those_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<String> = fs::read_dir(&source)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    found.dedup();
    let mut named: Vec<&str> = LAYERS.concat();
    named.sort_unstable();
    assert_eq!(found, named, "each module has a layer");
    for (height, layer) in LAYERS.iter().enumerate() {
        for module in *layer {
            let text = text_of(&source, module);
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code.filter(|line| line.contains("crate::")) {
                let used = line.split("crate::").nth(1).unwrap();
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let below = used == *module || LAYERS[..height].iter().any(|layer| layer.contains(&used.as_str()));
                assert!(below, "{module} uses {used}, which does not lie below it");
            }
        }
    }
}
