// SPDX-License-Identifier: MIT
//! What the command says to bad input, and with which status.

use std::process::Command;

/// Status, and what it says.
fn run(words: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_itanium")).args(words).output().expect("it runs");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn bad_input_is_told_and_has_a_status_of_its_own() {
    let own = env!("CARGO_BIN_EXE_itanium");
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (words, said) in [
        (&["/no/such/kernel"][..], "/no/such/kernel: No such file"),
        (&[own], "another architecture"),
        (&[text], "no ELF file"),
        (&[text, "--restore"], "no snapshot"),
        (&[own, "--ramdisk", "/no/such/disk"], "/no/such/disk: No such file"),
        (&[own, "--memory", "1"], "from 128 to"),
        (&[own, "--memory", "99999999999999999"], "bytes of memory"),
        (&[own, "--restore", "--memory", "256"], "cannot be used with"),
        (&[own, "--instructions", "many"], "invalid value"),
        (&[], "required"),
    ] {
        let (status, told) = run(words);
        assert_eq!(status, Some(2), "{words:?}: {told}");
        assert!(told.contains(said), "{words:?}: {told}");
    }
}
