"""Tests the Python module on the runs "words", "vae", "plain", "waves" and "friedman" in the folder TAPESTRY_RUNS."""

import json
import os
import threading
import unittest
from pathlib import Path

import numpy as np

import tapestry

RUNS = Path(os.environ["TAPESTRY_RUNS"])


class Refusals(unittest.TestCase):
    def refused(self, error, parts, call, *arguments, **options):
        with self.assertRaises(error) as raised:
            call(*arguments, **options)
        for part in parts:
            self.assertIn(part, str(raised.exception))


class Arrays(Refusals):
    def test_texts(self):
        words = tapestry.Model(RUNS / "words")
        self.assertEqual(words.tokenize("").dtype, np.int32)
        self.assertEqual(words.logits([1, 2]).shape, (2, words.vocabulary))
        self.assertTrue((words.logits(np.array([1, 2], np.uint8)) == words.logits([1, 2])).all())
        self.refused(tapestry.InputError, ["ß"], words.tokenize, "ß")
        self.refused(ValueError, ["null character"], words.generate, "green\0bottles")
        self.refused(TypeError, ["bytes", "expected a str"], words.generate, b"green")
        self.refused(TypeError, ["float64", "expected integers"], words.logits, [1.0])
        self.refused(TypeError, ["(1, 2)"], words.logits, [[1, 2]])
        self.refused(ValueError, ["-1"], words.logits, [-1])
        self.refused(ValueError, ["4294967297"], words.logits, np.array([4294967297]))
        self.refused(ValueError, ["token 99"], words.detokenize, [99])
        self.refused(ValueError, ["no tokens"], words.logits, [])
        self.refused(ValueError, ["temperature = 101"], words.generate, "", temperature=101)
        self.refused(ValueError, ["seed = -1"], words.generate, "", seed=-1)
        self.refused(TypeError, ["warmth"], words.generate, "", warmth=1)
        self.refused(TypeError, ["expected a list"], words.generate, "", stop="abc")
        self.refused(ValueError, ["language-model", "expected vae"], words.encode, np.zeros((1, 784)))

    def test_images(self):
        vae, plain = tapestry.Model(RUNS / "vae"), tapestry.Model(RUNS / "plain")
        images = np.random.default_rng(1).random((3, 1, 28, 28))
        codes = vae.encode(images)
        self.assertEqual((codes.means.shape, codes.means.dtype), ((3, 2), np.float32))
        self.assertEqual(codes.log_variances.shape, (3, 2))
        self.assertIsNone(plain.encode(images).log_variances)
        for same in (images[:, 0], images.reshape(3, 784), images.astype(np.float32)[::-1][::-1]):
            self.assertTrue((vae.encode(same).means == codes.means).all())
        self.assertEqual(vae.decode(codes.means).shape, (3, 1, 28, 28))
        self.assertTrue((vae.reconstruct(images) == vae.decode(codes.means)).all())
        self.refused(TypeError, ["uint8", "float32"], vae.encode, np.zeros((1, 1, 28, 28), np.uint8))
        self.refused(ValueError, ["(1, 28, 28, 1)", "(N, 1, 28, 28)"], vae.encode, np.zeros((1, 28, 28, 1)))
        self.refused(ValueError, ["(0, 1, 28, 28)"], vae.encode, np.zeros((0, 1, 28, 28)))
        self.refused(ValueError, ["(N, 2)"], vae.decode, np.zeros((1, 3)))
        self.refused(ValueError, ["image 1 (from 0)", "0 to 1"], vae.encode, np.stack([images[0], images[1] * 255]))
        self.refused(ValueError, ["decode", "inf"], vae.decode, [[1e300, 0]])

    def test_series_and_tables(self):
        waves, table = tapestry.Model(RUNS / "waves"), tapestry.Model(RUNS / "friedman")
        self.assertEqual(waves.forecast(np.zeros((12, 3), int)).shape, (waves.horizon, 3))
        self.refused(ValueError, ["(3, 12)", "(12, 3)"], waves.forecast, np.zeros((3, 12)))
        row = [0.5] * len(table.example_fields)
        predicted = table.predict([row, [str(cell) for cell in row]])
        self.assertEqual(predicted[0].prediction, predicted[1].prediction)
        self.assertEqual(len(predicted[0].prediction), len(table.prediction_columns))
        self.refused(ValueError, ["example 1", "a list of"], table.predict, [row, row[1:]])
        window = np.ones((12, 3))
        window[4, 2] = 1e300
        self.refused(ValueError, ["row 4 (from 0)", waves.series[2], "inf"], waves.forecast, window)
        named = dict(zip(table.example_fields, row), more="left out")
        columns = {name: [cell, cell] for name, cell in named.items()}
        for same in ([named, row], columns):
            self.assertEqual([one.prediction for one in table.predict(same)], [one.prediction for one in predicted])
        first = table.example_fields[0]
        self.refused(ValueError, ["example 1 (from 0) has a", f"expected {first}"], table.predict, [row, {"a": 1}])
        self.refused(ValueError, [f"the table has {first}; expected"], table.predict, {first: [1]})
        self.refused(ValueError, ["columns of"], table.predict, {**columns, first: [1]})
        self.refused(ValueError, ["example 0 (from 0) is 0.5"], table.predict, [0.5])
        self.refused(ValueError, ["whole data"], waves.predict, [])

    def test_masked_elements_are_missing(self):  # bug: their values were used
        waves, table = tapestry.Model(RUNS / "waves"), tapestry.Model(RUNS / "friedman")
        window = np.random.default_rng(1).random((12, 3))
        window[3, 1], window[:, 2] = 1e6, 1e6
        gaps = np.where(window > 1e5, np.nan, window)
        masked = np.ma.masked_greater(window, 1e5)
        for same in (masked, list(masked), masked.astype(np.float32)):
            self.assertTrue(np.array_equal(waves.forecast(same), waves.forecast(gaps), equal_nan=True))
        whole = np.ma.masked_greater(np.arange(36).reshape(12, 3), 30)
        self.assertTrue(np.array_equal(waves.forecast(whole), waves.forecast(whole.astype(float).filled(np.nan)),
                                       equal_nan=True))
        self.assertTrue((waves.forecast(np.ma.array(whole.data)) == waves.forecast(whole.data)).all())
        rows = np.ma.masked_less(np.random.default_rng(1).random((3, len(table.example_fields))), 0.3)
        self.assertEqual([one.prediction for one in table.predict(rows)],
                         [one.prediction for one in table.predict(rows.filled(np.nan))])
        self.assertEqual(table.predict(rows)[0].cells.count(""), int(rows.mask[0].sum()))
        vae, words = tapestry.Model(RUNS / "vae"), tapestry.Model(RUNS / "words")
        images = np.ma.masked_less(np.random.default_rng(1).random((2, 784)), 0.5)
        self.refused(ValueError, ["images: ", f"{images.mask.sum()} masked elements"], vae.encode, images)
        self.refused(ValueError, ["latents: ", "1 masked"], vae.decode, np.ma.masked_equal([[1., 0]], 0))
        self.refused(ValueError, ["tokens: ", "1 masked"], words.logits, np.ma.masked_equal([1, 2], 2))


class Calls(Refusals):
    def test_integers_that_c_does_not_hold(self):  # bug: ctypes truncated them
        words = tapestry.Model(RUNS / "words")
        self.refused(ValueError, ["count = 1000000000000;", "1 to 2147483647"], tapestry.set_num_threads, 10**12)
        self.refused(ValueError, ["count = 0;"], tapestry.set_num_threads, 0)
        self.refused(ValueError, ["count = 1.5;", "an integer"], tapestry.set_num_threads, 1.5)
        for name in ("tokens", "top_k", "seed"):
            for wrong in (1 << 64, -1, np.float32(1.5), "1"):
                self.refused(ValueError, [f"{name} = ", "an integer"], words.generate, "", **{name: wrong})
        tapestry.set_num_threads(np.int64(1))

    def test_an_exception_of_a_callback_is_raised(self):
        words = tapestry.Model(RUNS / "words")

        def fail(piece):
            pieces.append(piece)
            raise KeyboardInterrupt("in a callback")

        pieces = []
        self.assertRaisesRegex(KeyboardInterrupt, "in a callback", words.generate, "green", fail)
        self.assertEqual(len(pieces), 1)
        pieces = []
        whole = words.generate("green", pieces.append, tokens=30)
        self.assertEqual("".join(pieces), whole)
        begun = words.generate("green", lambda piece: pieces.append(piece) or len(pieces) < 40, tokens=60)
        self.assertLess(len(begun), 30)

    def test_threads_share_a_model(self):
        words = tapestry.Model(RUNS / "words")
        alone = [words.generate("green", tokens=50, seed=seed) for seed in range(4)]
        together = [""] * 4

        def write(seed):
            together[seed] = words.generate("green", tokens=50, seed=seed)

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_metrics(self):
        lines = tapestry.read_metrics(RUNS / "words")
        written = (RUNS / "words" / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(lines, [json.loads(line) for line in written])
        columns = tapestry.metric_columns(lines)
        self.assertEqual(columns["step"].dtype, np.int64)
        self.assertEqual(list(columns["loss"]), [line["loss"] for line in lines if line["split"] == "val"])
        gaps = tapestry.metric_columns([{"split": "val", "a": 1}, {"split": "val", "a": None, "b": 2}])
        self.assertTrue(np.array_equal(gaps["a"], [1, np.nan], equal_nan=True))
        self.assertRaises(tapestry.InputError, tapestry.read_metrics, RUNS / "nowhere")
        self.assertRaises(tapestry.InputError, tapestry.Model, RUNS / "nowhere")


class Trainings(Refusals):
    def test_a_run_has_the_bits_of_the_program(self):  # test_interfaces.cpp compares the runs
        lines = []
        run = tapestry.train(RUNS / "text.toml", None, lines.append, run=RUNS / "python")
        self.assertEqual(run, str(RUNS / "python"))
        self.assertEqual(lines, tapestry.read_metrics(run))

    def test_settings_and_exceptions(self):
        def fail(line):
            raise ZeroDivisionError("in a callback")

        settings = {"train.steps": np.int64(4), "optim.learning_rate": 1e-3, "train.samples": False, "seed": 2}
        run = tapestry.train(RUNS / "text.toml", settings, run=RUNS / "settings")
        self.assertEqual(tapestry.read_metrics(run)[-1]["step"], 4)
        with self.assertRaises(ZeroDivisionError):
            tapestry.train(RUNS / "text.toml", None, fail, run=RUNS / "raised")
        run = tapestry.train(RUNS / "text.toml", None, run=RUNS / "raised", resume=True)
        self.assertEqual(tapestry.read_metrics(run)[-1]["step"], 40)
        with self.assertRaisesRegex(tapestry.InputError, "unknown key train.stepz"):
            tapestry.train(RUNS / "text.toml", {"train.stepz": 1}, run=RUNS / "never")

    def test_data_in_memory(self):
        steps, time = {"train.steps": 4, "train.batch_size": 4}, np.arange(400.0)
        small = {**steps, "data.kind": "csv", "model.layers": 1, "model.width": 8, "model.context": 12,
                 "model.horizon": 3, "model.patch": 4}
        series = {"a": np.sin(time), "b": np.where(time % 9, time, np.nan)}
        waves = tapestry.train_in_memory("waves", small, series=series)
        self.assertEqual(waves.series, ["a", "b"])
        self.assertEqual(waves.forecast(np.ones((12, 2))).shape, (3, 2))
        window, cycle = np.ones((12, 2)), tapestry.train_in_memory("waves", {**small, "model.cycle": 5}, series=series)
        self.assertRaisesRegex(ValueError, "give first_step", cycle.forecast, window)
        self.assertRaisesRegex(ValueError, "first_step = 0.5", cycle.forecast, window, first_step=0.5)
        self.assertTrue((cycle.forecast(window, -4) == cycle.forecast(window, first_step=np.int64(6))).all())
        self.assertFalse((cycle.forecast(window, 1) == cycle.forecast(window, 2)).all())
        self.assertTrue((waves.forecast(window, 1) == waves.forecast(window)).all())
        pixels = np.random.default_rng(1).random((60, 1, 12, 12))
        classes = tapestry.train_in_memory("clothes-cnn", steps, images=pixels, labels=np.arange(60) % 3)
        self.assertEqual(classes.classify(pixels[:2]).shape, (2, 3))
        codes = tapestry.train_in_memory("clothes-vae", {**steps, "model.hidden": [8]}, images=pixels[:, 0])
        self.assertEqual(codes.encode(pixels).means.shape, (60, 3))
        story = (RUNS / "story.txt").read_text()
        words = tapestry.train_in_memory(RUNS / "text.toml", None, files={"story.txt": story},
                                         checkpoint=RUNS / "saved.safetensors")
        self.assertEqual(words.generate("green", tokens=30),
                         tapestry.Model(RUNS / "saved.safetensors").generate("green", tokens=30))
        names = {"what they wrote": ["a fine day", "sad", "fine words", "a sad day"], "kind": ["p", "n", "p", "n"]}
        self.assertRaisesRegex(tapestry.InputError, "^(?!.*(--|/memory)).*table in memory", tapestry.train_in_memory,
                               "friedman", {**steps, "data.kind": "csv", "data.label_field": "none"}, table=names)
        self.assertRaisesRegex(ValueError, "order", tapestry.train_in_memory, "clothes-vae", steps,
                               images=pixels.transpose(0, 2, 3, 1))
        lines = []
        self.assertRaisesRegex(tapestry.InputError, "its task is toy-sequence", tapestry.train_in_memory, "sort", steps,
                               lines.append)
        self.assertEqual(lines, [])
        for wrong in ({"labels": [1]}, {"series": {"a": [1, 2]}, "files": {"a": "b"}}, {"table": {}},
                      {"series": {"a": [1], "b": [1, 2]}}, {"images": np.zeros((2, 2))},
                      {"images": np.zeros((2, 3, 3)), "labels": [1]}):
            self.assertRaises(ValueError, tapestry.train_in_memory, "waves", **wrong)

    def test_masked_data_are_missing(self):  # bug: their values were used
        small = {"train.steps": 2, "train.batch_size": 4, "data.kind": "csv", "model.layers": 1, "model.width": 8,
                 "model.context": 12, "model.horizon": 3, "model.patch": 4}
        column, window = np.sin(np.arange(400.0)), np.ones((12, 2))
        masked = np.ma.masked_greater(column, 0.9)
        by_mask = tapestry.train_in_memory("waves", small, series={"a": masked, "b": column})
        by_nan = tapestry.train_in_memory("waves", small, series={"a": masked.filled(np.nan), "b": column})
        self.assertTrue((by_mask.forecast(window) == by_nan.forecast(window)).all())
        pixels, labels = np.zeros((60, 1, 12, 12)), np.arange(60) % 3
        self.refused(ValueError, ["images: ", "masked"], tapestry.train_in_memory, "clothes-cnn",
                     images=np.ma.masked_equal(pixels, 0), labels=labels)
        self.refused(ValueError, ["labels: 20 masked"], tapestry.train_in_memory, "clothes-cnn", images=pixels,
                     labels=np.ma.masked_equal(labels, 2))
        self.refused(ValueError, ["train.steps: 1 masked"], tapestry.train_in_memory, "waves",
                     {"train.steps": np.ma.masked})

    def test_wrong_kinds_of_data(self):  # bug: 5000 was 5000 null bytes, and a list an AttributeError
        for wrong in (5000, 1.5, None, ["a"], np.zeros(3)):
            self.refused(TypeError, ["files: n.txt: ", "expected a str or bytes"], tapestry.train_in_memory,
                         RUNS / "text.toml", files={"n.txt": wrong})
        for wrong in (["text"], "text", 5):
            for kind in ("files", "series", "table"):
                self.refused(TypeError, [f"{kind}: ", "by name"], tapestry.train_in_memory, RUNS / "text.toml",
                             **{kind: wrong})
        self.refused(TypeError, ["overrides: list", "by name"], tapestry.train_in_memory, "waves", ["seed=2"])
        self.refused(TypeError, ["series a: an array of <U1; expected numbers"], tapestry.train_in_memory, "waves",
                     series={"a": ["b", "c"]})
        story = (RUNS / "story.txt").read_bytes()
        texts = [tapestry.train_in_memory(RUNS / "text.toml", {"train.steps": 2}, files={"a.txt": content}).generate()
                 for content in (story, bytearray(story), memoryview(story), story.decode())]
        self.assertEqual(texts, texts[:1] * 4)


if __name__ == "__main__":
    unittest.main()
