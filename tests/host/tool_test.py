#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The xqa command line on the host: every subcommand, its output, its refusals, its exit status.

Environment: XQA_TOOL (the executable), XQA_FAULTY_DECODE (a library that spoils xqaDecode),
XQA_PROBLEMS (the folder of problem files for bench), XQA_MAN_PAGE.
"""

import csv
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TOOL = os.environ["XQA_TOOL"]
FAULTY_DECODE = os.environ["XQA_FAULTY_DECODE"]
PROBLEMS = pathlib.Path(os.environ["XQA_PROBLEMS"])
MAN_PAGE = pathlib.Path(os.environ["XQA_MAN_PAGE"])

CSV_HEADER = (
    "variant,head_dim,group_size,kv_heads,q_tokens,page_tokens,layout,kv_dtype,math,batch,lengths,"
    "median_us,p10_us,p90_us,tbps,ceiling_pct,error"
)
# Forced to the host, so that the test is the same on a machine with a GPU.
SMALL = "d=64,g=2,kv_heads=2,batch=2,len=70/9,backend=host"


def xqa(*arguments, env=None):
    return subprocess.run(
        [TOOL, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **(env or {})},
    )


class ToolTest(unittest.TestCase):
    def succeed(self, *arguments):
        result = xqa(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def refuse(self, *arguments):
        """A usage error: status 2, nothing on stdout, one message on stderr, which is returned."""
        result = xqa(*arguments)
        self.assertEqual(result.returncode, 2, (arguments, result.stdout, result.stderr))
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("xqa: "), result.stderr)
        return result.stderr


class HelpTest(ToolTest):
    def test_help_and_version(self):
        self.assertIn("xqa bench", self.succeed("--help"))
        self.assertRegex(self.succeed("--version"), r"^xqa \d+\.\d+\.\d+$")
        for command in ("info", "run", "bench"):
            text = self.succeed(command, "--help")
            self.assertTrue(text.startswith(f"xqa {command}:"), text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_every_key_is_documented(self):
        help_text = self.succeed("run", "--help")
        man_words = re.split(r"[^\w]+", MAN_PAGE.read_text().split("\n.SH PROBLEMS\n")[1])
        message = self.refuse("run", "--problem", "nonsense=1")
        keys = message.split("the keys are ")[1].strip().split(", ")
        self.assertGreater(len(keys), 20)
        for key in keys:
            self.assertIn(f"\n  {key}=", help_text)
            self.assertIn(key, man_words)

    def test_every_option_is_documented(self):
        man_text = MAN_PAGE.read_text().replace("\\-", "-")
        for command in ("info", "run", "bench"):
            for option in re.findall(r"--[a-z]+", self.succeed(command, "--help")):
                self.assertIn(option, man_text)

    def test_no_command(self):
        result = xqa()
        self.assertEqual(result.returncode, 2)
        self.assertIn("xqa run", result.stderr)
        self.assertIn("info, run, bench", self.refuse("frobnicate"))


class InfoTest(ToolTest):
    def test_summary(self):
        text = self.succeed("info")
        self.assertIn("libxqa", text)
        info = json.loads(self.succeed("info", "--json"))
        self.assertEqual("xqa " + info["version"], self.succeed("--version").strip())
        self.assertEqual(
            info["variant_count"], sum(b["variants"] for b in info["backends"].values())
        )
        self.assertGreater(info["backends"]["host"]["available"], 0)

    def test_variants(self):
        names = [line.split()[0] for line in self.succeed("info", "--variants").splitlines()]
        self.assertEqual(len(names), len(set(names)))
        listed = json.loads(self.succeed("info", "--variants", "host_d64_g*", "--json"))
        self.assertEqual(
            [v["name"] for v in listed], [n for n in names if n.startswith("host_d64_g")]
        )
        self.assertEqual({v["head_dim"] for v in listed}, {64})
        result = xqa("info", "--variants", "no_such_*")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no_such_*", result.stderr)

    def test_explain(self):
        name = json.loads(self.succeed("info", "--variants", "host_*", "--json"))[0]["name"]
        found = json.loads(self.succeed("info", "--explain", name, "--json"))
        self.assertIn("SUCCESS", found["status"])
        self.assertIn(name, found["explanation"])
        missing = json.loads(self.succeed("info", "--explain", "d80,g8,qf16,kve4m3", "--json"))
        self.assertNotIn("SUCCESS", missing["status"])
        self.assertIn("80", missing["explanation"])
        text = self.succeed("info", "--explain", "d80,g8,qf16,kve4m3")
        self.assertIn(missing["explanation"], text)
        self.assertIn("'x9'", self.refuse("info", "--explain", "d64,g8,qf16,x9"))
        self.assertIn("required", self.refuse("info", "--explain", "g8,qf16"))


class RunTest(ToolTest):
    def run_problem(self, problem):
        report = json.loads(self.succeed("run", "--problem", problem, "--json"))
        self.assertTrue(report["passed"])
        return report["results"][0]

    def test_text(self):
        text = self.succeed("run", "--problem", SMALL)
        self.assertIn("PASS", text)
        self.assertIn("checked  2 of 2 requests, 8 of 8 rows", text)

    def test_json(self):
        result = self.run_problem(SMALL)
        self.assertEqual(result["checked_rows"], result["total_rows"])
        self.assertEqual(result["variant"], "host_d64_g2_qf16_kvf16_mf16")
        self.assertGreater(result["microseconds"], 0)
        self.assertLessEqual(result["error"], result["error_bound"])

    def test_every_feature(self):
        for extra in (
            "layout=hnd,page=3",
            "layout=interleaved",
            "layout=padded,page=128",
            "layout=contiguous",
            "qdtype=bf16,lse=1",
            "kv=e4m3,kscale=0.3,vscale=1.9,qscale=0.5,perhead=1",
            "out=e4m3,oscale=0.5",
            "window=5,sinks=1,q=3",
            "softcap=2,scale=0.5",
            "q=37,mask=tree,ragged=1,lse=1",
            "q=4,mask=full",
        ):
            with self.subTest(extra=extra):
                self.run_problem(f"{SMALL},{extra}")

    def test_problem_is_reproduced_by_its_text(self):
        first = self.run_problem("d=64,batch=4,len=1..90,seed=5,qdtype=bf16,backend=host")
        again = self.run_problem(first["problem"])
        self.assertEqual(first["problem"], again["problem"])
        self.assertEqual(first["total_rows"], again["total_rows"])

    def test_every_model_passes(self):
        models = self.succeed("run", "--models").split()
        self.assertIn("gpt-oss-120b", models)
        self.assertEqual(json.loads(self.succeed("run", "--models", "--json")), models)
        for model in models:
            with self.subTest(model=model):
                report = json.loads(
                    self.succeed(
                        *("run", "--model", model, "--batch", "2", "--len", "150/31"),
                        *("--problem", "backend=host,lse=1", "--json"),
                    )
                )
                self.assertTrue(report["passed"])
                for result in report["results"]:
                    self.assertEqual(result["checked_rows"], result["total_rows"])

    def test_model_has_all_its_layer_kinds(self):
        report = json.loads(
            self.succeed(
                *("run", "--model", "gpt-oss-20b", "--len", "300", "--kv=e4m3", "--q=2"),
                *("--tp", "8", "--problem", "backend=host", "--json"),
            )
        )
        problems = [r["problem"] for r in report["results"]]
        self.assertEqual(len(problems), 2)
        self.assertIn("window=128", problems[0])
        self.assertNotIn("window", problems[1])
        for problem in problems:
            for part in ("d=64,g=8,kv_heads=1,q=2", "len=300", "kv=e4m3", "sinks=1"):
                self.assertIn(part, problem)

    def test_default_sizes(self):
        result = self.run_problem("d=64,backend=host")
        self.assertEqual(result["total_requests"], 2)

    def test_usage_errors(self):
        for problem, message in (
            ("d", "'d' is not of the form key=value"),
            ("", "--problem needs a value"),
            ("d=64,,g=8", "not of the form"),
            ("colour=red", "unknown key 'colour'"),
            ("d=64,d=64", "given twice"),
            ("d=sixty", "d is 'sixty'"),
            ("d=64x", "d is '64x'"),
            ("d=99999", "from 8 to 1024"),
            ("batch=0", "batch is '0'"),
            ("batch=-3", "batch is '-3'"),
            ("len=", "len is ''"),
            ("len=1//2", "len is ''"),
            ("len=9..3", "the range is empty"),
            ("len=uniform:5", "uniform:A..B"),
            ("layout=nhdd", "one of nhd, hnd"),
            ("qdtype=f8", "one of f16, bf16, e4m3"),
            ("mask=none", "one of causal, full, tree"),
            ("softcap=-1", "softcap is '-1'"),
            ("softcap=nan", "softcap is 'nan'"),
            ("kscale=0", "kscale is '0'"),
            ("sinks=maybe", "sinks is 'maybe'"),
            ("backend=cpu", "one of default, host"),
            ("seed=1.5", "seed is '1.5'"),
        ):
            with self.subTest(problem=problem):
                self.assertIn(message, self.refuse("run", f"--problem={problem}", "--batch=1"))
        self.assertIn("needs --problem", self.refuse("run"))
        self.assertIn("argument '--bogus'", self.refuse("run", "--problem", SMALL, "--bogus"))
        self.assertIn("--problem needs a value", self.refuse("run", "--problem"))
        self.assertIn("--tp needs --model", self.refuse("run", "--problem", SMALL, "--tp", "2"))
        self.assertIn("does not divide", self.refuse("run", "--model", "phi-4", "--tp", "3"))
        self.assertIn("--device is 'x'", self.refuse("run", "--problem", SMALL, "--device", "x"))

    def test_unknown_model_lists_the_models(self):
        message = self.refuse("run", "--model", "llama-9")
        for model in self.succeed("run", "--models").split():
            self.assertIn(model, message)

    def test_refusal_of_the_library_is_passed_on(self):
        for problem in ("d=80", "mask=full,window=5,q=2"):
            result = xqa("run", "--problem", f"{problem},batch=1,len=9,backend=host")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^xqa: xqa\w+: XQA_STATUS_\w+: .{10}")

    def test_a_wrong_result_fails(self):
        # AddressSanitizer builds insist on being loaded first unless told otherwise.
        env = {"LD_PRELOAD": FAULTY_DECODE, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        result = xqa("run", "--problem", SMALL, env=env)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("FAIL", result.stdout)
        self.assertIn("reproduce: xqa run --problem", result.stdout)
        model = ("--model", "qwen2.5-0.5b", "--problem", "backend=host")
        result = xqa("run", *model, "--json", env=env)
        self.assertEqual(result.returncode, 1)
        report = json.loads(result.stdout)
        self.assertFalse(report["passed"])
        self.assertFalse(report["results"][0]["passed"])
        result = xqa("bench", "--problem", SMALL, env=env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAIL", result.stdout)


class BenchTest(ToolTest):
    def test_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.csv"
            problems = pathlib.Path(folder) / "problems.txt"
            problems.write_text(f"# comment\n\n{SMALL}  # another\n{SMALL},kv=e4m3,layout=hnd\n")
            self.succeed("bench", "--problems", str(problems), "--csv", str(path))
            lines = path.read_text().splitlines()
            self.assertEqual(lines[0], CSV_HEADER)
            rows = list(csv.DictReader(lines))
        self.assertEqual(len(rows), 2)
        self.assertEqual(rows[0]["variant"], "host_d64_g2_qf16_kvf16_mf16")
        self.assertEqual(rows[1]["kv_dtype"], "e4m3")
        self.assertEqual(rows[1]["layout"], "hnd")
        for row in rows:
            self.assertEqual(row["lengths"], "70/9")
            self.assertLessEqual(float(row["p10_us"]), float(row["median_us"]))
            self.assertLessEqual(float(row["median_us"]), float(row["p90_us"]))
            self.assertGreater(float(row["ceiling_pct"]), 0)
            self.assertLess(float(row["error"]), 1e-3)

    def test_json_counts_visible_bytes(self):
        problem = "d=64,g=2,kv_heads=2,batch=3,len=500,window=50,backend=host"
        row = json.loads(self.succeed("bench", "--problem", problem, "--json"))["rows"][0]
        visible_bytes = row["tbps"] * 1e6 * row["median_us"]
        self.assertAlmostEqual(visible_bytes / (3 * 50 * 2 * 64 * 2 * 2), 1.0, places=6)

    def test_peers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "peers.csv"
            path.write_text(
                "# note\nmicroseconds,kernel,problem\n"
                "900,slow,len=70/9,batch=2,d=64,g=2,kv_heads=2\n"
                "800,quick,d=64,g=2,kv_heads=2,batch=2,len=70/9\n"
            )
            arguments = ("bench", "--problem", SMALL, "--peers", str(path))
            row = json.loads(self.succeed(*arguments, "--json"))["rows"][0]
            self.assertEqual((row["peer_us"], row["peer_kernel"]), (800, "quick"))
            self.assertRegex(self.succeed(*arguments), r" 800\.0 +\d+\.\d\dx ")
            path.write_text("us,problem\n")
            self.assertIn("header", self.refuse(*arguments))
            path.write_text("microseconds,kernel,problem\n5,k,d=64,colour=red\n")
            self.assertIn("peers.csv:2", self.refuse(*arguments))

    def test_committed_files_are_well_formed(self):
        self.assertTrue((PROBLEMS / "peers.txt").is_file())
        for path in sorted(PROBLEMS.glob("*.txt")):
            with self.subTest(path=path.name):
                # An unusable option after all files were read: they parsed.
                message = self.refuse("bench", "--problems", str(path), "--bogus")
                self.assertIn("unknown argument", message)
        message = self.refuse(
            *("bench", "--problem", SMALL, "--peers", str(PROBLEMS / "peers.csv")),
            *("--csv", "/nonexistent/x.csv"),
        )
        self.assertIn("cannot write", message)

    def test_every_peer_row_is_a_bench_row(self):
        problems = [
            line.split("#")[0].strip() for line in (PROBLEMS / "peers.txt").read_text().splitlines()
        ]
        for line in (PROBLEMS / "peers.csv").read_text().splitlines():
            if line.startswith("#") or line.startswith("microseconds"):
                continue
            self.assertIn(line.split(",", 2)[2], problems)

    def test_host_cost(self):
        report = json.loads(self.succeed("bench", "--host", "--problem", SMALL, "--json"))
        cost = report["host_cost_ns"][0]
        self.assertGreater(cost["find_variant"], 0)
        self.assertGreater(cost["workspace_size"], 0)
        self.assertIn("find", self.succeed("bench", "--host", "--problem", SMALL))

    def test_unusable_row_does_not_end_the_sweep(self):
        result = xqa(
            *("bench", "--problem", "d=80,batch=1,len=9,backend=host", "--problem", SMALL, "--json")
        )
        self.assertEqual(result.returncode, 1)
        rows = json.loads(result.stdout)["rows"]
        self.assertIn("NOT_FOUND", rows[0]["failure"])
        self.assertTrue(rows[1]["passed"])

    def test_usage_errors(self):
        self.assertIn("needs --problem", self.refuse("bench"))
        self.assertIn("needs batch and len", self.refuse("bench", "--problem", "d=64"))
        self.assertIn("cannot read", self.refuse("bench", "--problems", "/nonexistent"))
        message = self.refuse("bench", "--host", "--problem", SMALL, "--empty")
        self.assertIn("--host goes with", message)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "problems.txt"
            path.write_text("# nothing\n")
            self.assertIn("holds no problem", self.refuse("bench", "--problems", str(path)))
            path.write_text("\nd=64,x=1\n")
            self.assertIn("problems.txt:2", self.refuse("bench", "--problems", str(path)))


if __name__ == "__main__":
    unittest.main()
