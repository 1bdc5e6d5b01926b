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
    let folder = env!("CARGO_MANIFEST_DIR");
    let empty = concat!(env!("CARGO_TARGET_TMPDIR"), "/empty");
    std::fs::write(empty, "").expect("a file");
    for (words, said) in [
        (&["/no/such/kernel"][..], "/no/such/kernel: No such file"),
        (&[own], "another architecture"),
        (&[text], "Cargo.toml: this kernel cannot be started: it is no ELF file"),
        (&[empty], "empty: this kernel cannot be started: it is empty"),
        (&[folder], "Is a directory"),
        (&[text, "--restore"], "no snapshot"),
        (&[own, "--ramdisk", "/no/such/disk"], "/no/such/disk: No such file"),
        (&[own, "--ramdisk", empty], "empty: this RAM disk cannot be used: it is empty"),
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

/// A kernel that could be started: an ELF file with a segment of 16 bytes.
fn kernel() -> String {
    const AT: u64 = 0x400_0000;
    let mut file = vec![0; 136];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    for (place, word) in
        [(18, 50), (24, AT), (32, 64), (56, 1), (64, 1), (72, 120), (80, AT), (88, AT), (96, 16), (104, 16_u64)]
    {
        file[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernel");
    std::fs::write(path, file).expect("it can be written");
    path.to_owned()
}

#[test]
fn memory_that_this_computer_has_not_is_told() {
    // A limit, in KiB, as a computer may have room for any size that a machine may have.
    let script = "ulimit -v 1000000; exec \"$0\" \"$@\"";
    let with = |memory: &str| {
        let words =
            ["-c", script, env!("CARGO_BIN_EXE_itanium"), &kernel(), "--memory", memory, "--instructions", "10"];
        let done = Command::new("sh").args(words).output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, told) = with("2048");
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("no 2048 MiB"), "{told}");
    assert_eq!(with("128").0, Some(1), "it is started, and has not ended");
}
