// SPDX-License-Identifier: GPL-2.0-or-later
//! The plugin's arguments.

use mmu_model::cpu::Cpu;
use mmu_trace::format::Fetches;

use crate::check::Checks;
use crate::follow::Stack;
use crate::listeners::Traces;

/// What the command line asks for.
pub struct Wanted {
    /// Where counts go.
    pub out: String,
    /// The processor to be, unless it is only recorded.
    pub cpu: Option<Cpu>,
    /// What stands between machine and program.
    pub stack: Stack,
    /// Send data through the model's caches.
    pub data: bool,
    /// The checking mode.
    pub check: Checks,
    /// Where it is recorded.
    pub traces: Option<Traces>,
}

/// As QEMU passes them.
pub fn arguments(words: &[String]) -> Result<Wanted, String> {
    let (mut out, mut cpu, mut stack, mut traces) = (None, None, None, None);
    let (mut check, mut data, mut fetches) = (Checks::Nothing, true, Fetches::Pages);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no key=value"))?;
        match (key, value) {
            ("out", path) => out = Some(path.to_owned()),
            ("trace", path) => traces = Some(Traces::new(path)?),
            ("cpu", name) => {
                let known = || mmu_model::cpu::BUILT_IN.map(|(name, _)| name).join(", ");
                let found = Cpu::built_in(name).ok_or_else(|| format!("cpu={name}: known are {}", known()))?;
                cpu = Some(found.map_err(|error| error.to_string())?);
            }
            ("stack", "native") => stack = Some(Stack::Native),
            ("stack", "hvm") => stack = Some(Stack::Hvm),
            ("stack", "pv") => stack = Some(Stack::Pv),
            ("data", "on" | "off") => data = value == "on",
            ("check", "off") => check = Checks::Nothing,
            ("check", "on") => check = Checks::Addresses,
            ("check", "entries") => check = Checks::Entries,
            ("fetches", "pages") => fetches = Fetches::Pages,
            ("fetches", "lines") => fetches = Fetches::Lines,
            _ => return Err(format!("{word:?} is not known")),
        }
    }
    if cpu.is_none() && (check != Checks::Nothing || traces.is_none()) {
        return Err("no processor; add cpu=NAME, or only record with trace=PATH".into());
    }
    if fetches == Fetches::Lines && (cpu.is_some() || traces.is_none()) {
        return Err("fetches=lines is for recording only; add trace=PATH, and leave out cpu=".into());
    }
    let traces = traces.map(|traces: Traces| traces.with_fetches(fetches));
    let out = out.ok_or("no output file; add out=PATH")?;
    let stack = stack.ok_or("no stack; add stack=native, hvm or pv")?;
    Ok(Wanted { out, cpu, stack, data, check, traces })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let configured = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            arguments(&words).err().unwrap_or_default()
        };
        for check in ["check=on", "check=off", "check=entries"] {
            assert_eq!(configured(&["out=o", "stack=pv", "cpu=zen2", "data=off", check]), "");
        }
        assert!(configured(&["check=all"]).contains("is not known"));
        assert!(configured(&["out=o", "stack=pv"]).contains("cpu=NAME"));
        assert!(configured(&["out=o", "cpu=zen2"]).contains("add stack="));
        assert!(configured(&["stack=pv", "cpu=zen2"]).contains("add out="));
        assert!(configured(&["cpu=zen1"]).contains("known are i7-3770"));
        assert!(configured(&["out=o", "stack=pv", "trace=/nonexistent/t"]).contains("trace=/nonexistent/t"));
        assert!(configured(&["out"]).contains("no key=value"));
        assert_eq!(configured(&["out=o", "stack=pv", "trace=/dev/null", "fetches=lines"]), "");
        for words in [&["trace=/dev/null", "cpu=zen2"][..], &["cpu=zen2"]] {
            let words = [&["out=o", "stack=pv", "fetches=lines"], words].concat();
            assert!(configured(&words).contains("is for recording only"), "{words:?}");
        }
        assert!(configured(&["fetches=all"]).contains("is not known"));
        for check in ["check=on", "check=entries"] {
            assert!(configured(&["trace=/dev/null", "out=o", "stack=pv", check]).contains("cpu=NAME"));
        }
    }
}
