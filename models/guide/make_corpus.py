#!/usr/bin/env python3
"""Expands the guide's corpus into conversations: what the built-in model is trained and measured on.

    make_corpus.py OUT.jsonl [--conversations 1000] [--seed 1] [--held-out]
    make_corpus.py --flags RIDGE        # writes corpus/flags.txt from the commands' help

Each output line is a conversation: [{"role": "user", "content": "..."}, {"role": "assistant", ...}, ...].

A topic in corpus/*.txt begins with "= TERM | ALIAS" (also asked with the questions of DEFINE) or with "- NAME" (only
the listed questions). Then one or more lines of each kind follow:

    ? a question | another
    ~ words of the question          bare keywords
    ! an answer                      one is chosen at random
    + more of it                     the answer to "tell me more"

Questions are varied (synonyms, lost words, typing errors, politeness, case, punctuation), because a small model has
never seen real users' words. One question in twelve and those of questions.json are kept out of training; --held-out
makes conversations from the former.

Derived numbers (bits per weight, file sizes, memory) are computed from quant/formats.def and the tables below.
"""

import argparse
import hashlib
import json
import pathlib
import random
import re
import subprocess

HERE = pathlib.Path(__file__).parent

DEFINE = """what is {t}? | what's {t}? | explain {t} | tell me about {t} | what does {t} mean? | how does {t} work? | describe {t} | {t} | {t}? | define {t}
can you explain {t}? | I don't understand {t} | what do you know about {t}? | give me a short explanation of {t} | what exactly is {t}? | what is meant by {t}?
I keep reading about {t}, what is it? | {t}: what is that? | what is {t} good for? | what is {t} for? | help me understand {t} | {t} meaning | {t} explained
could you say something about {t}? | what is the idea of {t}? | what is the point of {t}? | so what is {t} about? | I saw {t} somewhere, what is that?
what is the purpose of {t}? | why is there {t}? | I would like to know what {t} is | what should I know about {t}? | {t} definition"""

PREFIX = ["hey, ", "hi, ", "please ", "quick question: ", "so ", "ok, ", "and ", "I wonder, ", "do you know ", "can you tell me ",
          "could you tell me ", "I want to know ", "one more question: ", "well, ", "tell me, ", "sorry, ", "also, ", "hello, ",
          "I'm new to this, ", "just curious: ", "help me: ", "please tell me ", "question: ", "now "]
SUFFIX = [" please", " thanks", " in short", " for a beginner", " in one sentence", " briefly", " exactly", " again", " in simple words",
          " for me", " really", " actually", " by the way", ", do you know?", " then", " here", " in general", " usually"]
FOLLOW_UP = ["tell me more", "more", "go on", "can you say more?", "more about that", "and?", "more details please", "anything else?",
             "elaborate", "explain further", "continue", "what else?"]

SYNONYMS = [
    ["how do I", "how can I", "how to", "how would I", "how should I", "what is the way to", "is there a way to", "I want to", "how does one", "what do I do to"],
    ["what is", "what's", "whats", "what exactly is", "what is actually"],
    ["why is", "why's", "how come", "what is the reason that", "for what reason is"],
    ["why are", "how come", "what is the reason that"],
    ["why do", "how come", "for what reason do"],
    ["what happens", "what do I get", "what will happen"],
    ["does ridge", "can ridge", "will ridge", "do you", "can you", "does this program", "does it"],
    ["big", "large", "huge"], ["bigger", "larger"], ["small", "little", "tiny"], ["smaller", "less big", "more compact"],
    ["make", "create", "produce", "write", "build", "generate", "get"], ["choose", "pick", "select", "take"], ["use", "work with", "take", "run"],
    ["run", "use", "start", "execute", "launch"], ["start", "begin", "open", "launch"], ["convert", "turn", "transform", "import", "bring"],
    ["show", "print", "display", "list", "see"], ["measure", "test", "find out", "determine", "check", "benchmark"],
    ["fast", "quick", "speedy"], ["faster", "quicker", "speedier"], ["slow", "sluggish", "not fast"], ["speed", "performance", "rate"],
    ["file", "model file"], ["model", "LLM", "language model", "network"], ["models", "LLMs", "language models"],
    ["GPU", "graphics card", "card", "video card", "gpu"], ["memory", "RAM", "space"], ["VRAM", "GPU memory", "graphics memory", "video memory", "memory of my card"],
    ["answer", "reply", "response", "output"], ["question", "prompt"], ["command", "subcommand", "option"], ["weights", "parameters"],
    ["quantized", "compressed", "shrunk", "packed"], ["quantize", "compress", "shrink", "squeeze"], ["quantization", "compression", "quantizing"],
    ["quant", "quantization", "format", "type"], ["format", "type", "quant", "kind"], ["difference", "distinction"], ["different", "unlike"],
    ["better", "preferable", "superior"], ["best", "ideal", "right"], ["good", "fine", "suitable"], ["bad", "poor"], ["worse", "less good", "dumber"],
    ["need", "require", "have to have"], ["download", "fetch", "get"], ["limited by", "bound by", "dependent on"], ["saves", "gains", "brings"],
    ["long", "lengthy"], ["context", "conversation", "history"], ["chat", "conversation", "talk"], ["stop", "end", "halt", "interrupt", "abort"],
    ["tokens per second", "tok/s", "tokens a second", "t/s"], ["bits per weight", "bpw", "bits for each weight"], ["laid out", "structured", "organized", "stored"],
    ["matter", "count", "make a difference"], ["fit", "go", "work"], ["error", "loss", "mistake"], ["quality", "accuracy", "precision"],
    ["checkpoint", "model", "folder"], ["my", "the", "a"], ["computer", "machine", "PC", "laptop"], ["force", "make", "require"],
    ["supported", "allowed", "possible", "okay"], ["program", "tool", "software", "app"], ["tell me about", "talk about", "describe", "say something about"],
    ["explain", "describe", "clarify", "walk me through"], ["stand for", "mean", "abbreviate"], ["stored", "kept", "saved", "held"],
    ["computed", "calculated", "worked out"], ["called", "named"], ["often", "usually", "commonly"], ["should I", "do I", "would you", "must I"],
    ["recommend", "suggest", "advise"], ["idea", "concept", "principle"], ["reduce", "lower", "cut", "shrink"], ["important", "relevant"],
]

# billions of parameters of published models
PARAMETERS = {"1B": 1.24, "3B": 3.21, "7B": 7.25, "8B": 8.03, "13B": 13.0, "14B": 14.8, "30B": 30.5, "32B": 32.8, "70B": 70.6}
RECIPE_BITS = {"Q2_K": 3.0, "Q3_K_M": 3.95, "IQ4_XS": 4.45, "Q4_K_S": 4.65, "Q4_K_M": 4.89, "Q5_K_M": 5.7, "Q6_K": 6.57, "Q8_0": 8.5, "F16": 16.0}
# memory in GB -> recommended model
FITS = {
    "4": "a 3B model in Q4_K_M, about 2 GB", "6": "a 7B or 8B model in IQ4_XS, about 4.4 GB", "8": "an 8B model in Q4_K_M, about 4.9 GB",
    "10": "an 8B model in Q5_K_M or Q6_K, up to 6.6 GB", "12": "an 8B model in Q8_0, 8.5 GB, or a 14B model in Q4_K_M, 9 GB",
    "16": "a 14B model in Q5_K_M or Q6_K, about 12 GB", "24": "a 32B model in Q4_K_M, about 20 GB", "32": "a 32B model in Q5_K_M or Q6_K, up to 27 GB",
    "48": "a 70B model in Q4_K_M, about 43 GB", "64": "a 70B model in Q5_K_M, about 50 GB", "80": "a 70B model in Q6_K, about 58 GB",
}


def split(text):
    return [part.strip() for part in re.split(r"\s*[|\n]\s*", text) if part.strip()]


class Topic:
    def __init__(self, name):
        self.name, self.terms, self.questions, self.keywords, self.answers, self.more = name, [], [], [], [], []


def read_topics():
    topics = []
    for path in sorted((HERE / "corpus").glob("*.txt")):
        if path.name in ("unknown.txt", "stories.txt"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark, text = line[:1], line[1:].strip()
            if mark in ("", "#"):
                continue
            if mark in "=-":
                topics.append(Topic(f"{path.stem}: {text}"))
                if mark == "=":
                    topics[-1].terms = split(text)
            elif mark == "?":
                topics[-1].questions += split(text)
            elif mark in "~!+":
                {"~": topics[-1].keywords, "!": topics[-1].answers, "+": topics[-1].more}[mark].append(text)
            else:
                raise SystemExit(f"{path}:{number}: a line begins with one of = - ? ~ ! +")
    return topics + computed_topics()


def read_sections(name):
    sections, current = {}, None
    for line in (HERE / "corpus" / name).read_text().splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            current += [line.strip()] if name == "stories.txt" and "plots" in sections and current is sections["plots"] else split(line)
    return sections


def article(size):
    return "an" if size.startswith("8") else "a"


def computed_topics():
    topics = []

    def add(name, questions, answers):
        topic = Topic("computed: " + name)
        topic.questions, topic.answers = split(questions), answers
        topics.append(topic)

    for line in (HERE.parents[1] / "quant" / "formats.def").read_text().splitlines():
        match = re.match(r"RIDGE_FORMAT\((\w+), \d+, (\d+), (\d+)\)", line)
        if not match or match[1] in ("F32", "F16", "BF16"):
            continue
        f, weights, size = match[1], int(match[2]), int(match[3])
        bits = f"{8 * size / weights:.6g}"
        add(f"bits {f}", f"how many bits per weight does {f} have? | how many bits does {f} use? | bits per weight of {f} | {f} bpw | how many bits is {f}?"
            f" | what is the bpw of {f}? | how many bits does {f} take for each weight? | {f} bits",
            [f"{f} has {bits} bits per weight: {size} bytes for {weights} weights."])
        add(f"block {f}", f"how big is a {f} block? | what is the block size of {f}? | how many weights are in a {f} block? | how many bytes is a block of {f}?"
            f" | {f} block size | block of {f} in bytes", [f"A {f} block has {weights} weights in {size} bytes, which is {bits} bits per weight."])

    sizes = {}
    for b, billions in PARAMETERS.items():
        for recipe, bits in RECIPE_BITS.items():
            gb = billions * bits / 8
            sizes[b, recipe] = f"{gb:.0f}" if gb >= 19.5 else f"{gb:.1f}"
            add(f"size {b} {recipe}", f"how big is {article(b)} {b} model in {recipe}? | size of {b} {recipe} | how large is a {b} {recipe} file? | {b} {recipe} size"
                f" | how many GB is {article(b)} {b} in {recipe}? | how much memory does {b} {recipe} need? | how much VRAM for {b} {recipe}?",
                [f"{article(b).capitalize()} {b} model in {recipe} is about {sizes[b, recipe]} GB."])
        add(f"size {b}", f"how big is {article(b)} {b} model? | how much memory does {article(b)} {b} model need? | how much VRAM do I need for {article(b)} {b} model? | {b} model size"
            f" | VRAM for {b} | what do I need to run {article(b)} {b} model? | how many gigabytes is {b}?",
            [f"{article(b).capitalize()} {b} model is about {sizes[b, 'F16']} GB in F16, {sizes[b, 'Q8_0']} GB in Q8_0 and {sizes[b, 'Q4_K_M']} GB in Q4_K_M, plus the KV cache."])
    for gb, what in FITS.items():
        add(f"fits {gb}", f"which quant fits {gb} GB? | what can I run with {gb} GB? | what fits into {gb} GB of VRAM? | which model for {gb} GB of memory? | {gb} GB VRAM"
            f" | I have {gb} GB, what should I use? | what model can I run on a {gb} GB GPU? | best model for {gb}GB | my GPU has {gb} GB, which quant?"
            f" | which quantization for a {gb} GB card? | I have a graphics card with {gb} GB, what fits? | what should I choose for {gb} gigabytes?",
            [f"With {gb} GB take {what}; the rest is for the KV cache and scratch."])
        for b in PARAMETERS:
            best = [r for r in RECIPE_BITS if float(sizes[b, r]) + 1 <= float(gb)]
            answer = (f"Yes: {article(b)} {b} model fits into {gb} GB in {best[-1]}, about {sizes[b, best[-1]]} GB." if best else
                      f"No: even in Q2_K {article(b)} {b} model is about {sizes[b, 'Q2_K']} GB, too much for {gb} GB. Keep some layers on the CPU with -ngl.")
            add(f"fits {b} {gb}", f"does {article(b)} {b} model fit into {gb} GB? | can I run {b} on {gb} GB? | {b} with {gb} GB VRAM? | will {article(b)} {b} fit in {gb}GB?"
                f" | can my {gb} GB GPU run {article(b)} {b} model? | is {gb} GB enough for {b}? | {b} on a {gb} GB card?", [answer])
    recipes = list(RECIPE_BITS)
    for i, low in enumerate(recipes):
        for high in recipes[i + 1:]:
            for a, b in ((low, high), (high, low)):
                add(f"{a} {b}", f"{a} or {b}? | {a} vs {b} | what is the difference between {a} and {b}? | is {a} better than {b}? | which is better, {a} or {b}? | compare {a} and {b}"
                    f" | should I take {a} or {b}? | {a} versus {b}",
                    [f"{high} is closer to the original at about {RECIPE_BITS[high]:g} bits per weight; {low} is smaller and faster at about {RECIPE_BITS[low]:g}."])
    return topics


def normalized(text):
    return re.sub(r"[^a-z0-9_]+", " ", text.lower()).strip()


class Corpus:
    def __init__(self):
        self.topics = read_topics()
        self.unknown, self.stories = read_sections("unknown.txt"), read_sections("stories.txt")
        questions = json.loads((HERE / "questions.json").read_text())
        self.tested = {normalized(q["question"]) for asked in questions.values() for q in asked}
        for topic in self.topics:
            asked = topic.questions + [d.format(t=t) for t in topic.terms for d in split(DEFINE)]
            asked = [q for q in asked if normalized(q) not in self.tested]
            held = [q for q in asked if int(hashlib.sha1(q.encode()).hexdigest(), 16) % 12 == 0] if len(asked) > 3 else []
            topic.held_out, topic.asked = held, [q for q in asked if q not in held]
            # As many listed questions, which are specific to the topic, as definitions.
            topic.special = [q for q in topic.asked if q in topic.questions]
        computed = [t for t in self.topics if t.name.startswith("computed")]
        flags = [t for t in self.topics if t.name.startswith("flags")]
        chat = [t for t in self.topics if t.name.startswith("chat")]
        rest = [t for t in self.topics if t not in computed + flags + chat]
        self.groups = [(chat, 0.10), (computed, 0.18), (flags, 0.12), (rest, 0.60)]

    def vary(self, rng, text):
        """A variation of the question."""
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
            words = rng.choice(SYNONYMS)
            found = [w for w in words if re.search(rf"\b{re.escape(w)}\b", text, re.I)]
            if found:
                text = re.sub(rf"\b{re.escape(max(found, key=len))}\b", lambda _: rng.choice(words), text, count=1, flags=re.I)
        end = text[-1:] if text[-1:] in "?!." else ""
        text = text[:len(text) - len(end)]
        words = text.split(" ")
        if len(words) > 3 and rng.random() < 0.3:
            words = [w for w in words if rng.random() > 0.12 or not w.islower()] or words
        if rng.random() < 0.2:
            words = [self.mistype(rng, w) if rng.random() < 0.25 else w for w in words]
        text = " ".join(words)
        if rng.random() < 0.25:
            text = rng.choice(PREFIX) + text
        if rng.random() < 0.2:
            text += rng.choice(SUFFIX)
        text += end if rng.random() < 0.65 else ""
        case = rng.random()
        if case < 0.35:
            text = text.lower()
        elif case < 0.75:
            text = text[:1].upper() + text[1:]
        return text

    @staticmethod
    def mistype(rng, word):
        if len(word) < 4 or not word.isalpha() or not word.islower():
            return word
        i = rng.randrange(1, len(word) - 1)
        return rng.choice([word[:i] + word[i + 1:], word[:i] + word[i + 1] + word[i] + word[i + 2:], word[:i] + word[i] + word[i:]])

    def about(self, rng, held_out):
        topics = rng.choices([g for g, _ in self.groups], [w for _, w in self.groups])[0]
        topic = rng.choice([t for t in topics if t.held_out] if held_out else topics)
        if held_out:
            question = rng.choice(topic.held_out)
        elif topic.keywords and rng.random() < 0.2:
            words = rng.choice(topic.keywords).split()
            words = rng.sample(words, rng.randint((len(words) + 1) // 2, len(words))) if rng.random() < 0.6 else words
            question = " ".join(words)
        else:
            question = self.vary(rng, rng.choice(topic.special if topic.special and rng.random() < 0.6 else topic.asked))
        if normalized(question) in self.tested:  # a variation may equal a test question
            return self.about(rng, held_out)
        turns = [question, rng.choice(topic.answers)]
        if topic.more and rng.random() < 0.4:
            turns += [self.vary(rng, rng.choice(FOLLOW_UP)), rng.choice(topic.more)]
        return turns

    def refusal(self, rng):
        subject = rng.choice(self.unknown["subjects"])
        if rng.random() < 0.35:  # an unknown word
            subject = "".join(rng.choice(["ba", "ko", "ri", "mu", "ta", "le", "zor", "vin", "pel", "sha", "gron", "di", "mar", "fex", "ul", "an", "ster", "ho"])
                              for _ in range(rng.randint(2, 4)))
            subject = subject.capitalize() if rng.random() < 0.5 else subject
        if rng.random() < 0.2:
            subject = rng.choice(self.unknown["subjects"]) + rng.choice([" and ", " in ", " of ", " or ", " for "]) + subject
        slots = {"s": subject, "s2": rng.choice(self.unknown["subjects"]), "v": rng.choice(self.unknown["verbs"]), "r": rng.choice(self.unknown["roles"]),
                 "j": rng.choice(self.unknown["adjectives"]), "n": rng.randint(2, 999), "m": rng.randint(2, 99)}
        question = rng.choice(self.unknown["ask"]).format(**slots)
        question = self.vary(rng, question)
        if normalized(question) in self.tested:
            return self.refusal(rng)
        return [question, rng.choice(self.unknown["answers"])]

    def story(self, rng):
        s = self.stories
        a, b = rng.sample(s["names"], 2)
        slots = {"a": a, "A": b, "an": rng.choice(s["animals"]), "th": rng.choice(s["things"]), "pl": rng.choice(s["places"]),
                 "ad": rng.choice(s["adjectives"]), "fe": rng.choice(s["feelings"]), "tm": rng.choice(s["times"])}
        question, plot = rng.choice(s["ask"]), rng.choice(s["plots"])
        question, text = (re.sub(r"\ba (?=[aeiou])", "an ", t.format(**slots)) for t in (question, plot))
        return [self.vary(rng, question), text[:1].upper() + text[1:]]

    def conversation(self, rng, held_out=False):
        turns = []
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
            kind = rng.random()
            turns += (self.about(rng, held_out) if kind < 0.77 else self.refusal(rng) if kind < 0.95 else self.story(rng))
        return [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(turns)]


def help_of(ridge, command):
    """Flags in the first group of a command's help: [(flag, others, value, text)]."""
    lines = subprocess.run([ridge, command, "--help"], capture_output=True, text=True, check=True).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line in ("Common", "Options"))
    rows = []
    for line in lines[start + 1:]:
        if not line.strip():
            break
        begin = re.match(r"  (-\S.*?)(?:  +(\S.*))?$", line)
        if begin:
            rows.append([begin[1], begin[2] or ""])
        elif rows:
            rows[-1][1] = (rows[-1][1] + " " + line.strip()).strip()
    flags = []
    for name, text in rows:
        names = re.findall(r"--?[a-zA-Z][a-z0-9-]*", name)
        value = re.search(r" ([A-Z][A-Z_-]*)$", name)
        long = [n for n in names if n.startswith("--")]
        if long and long[0] != "--help":
            flags.append((long[0], [n for n in names if n != long[0]], value[1] if value else "", text))
    return flags


def commands_of(ridge):
    text = subprocess.run([ridge, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) ", text[:text.index("\nOptions")], re.M)


def write_flags(ridge):
    """One topic per flag and distinct help text."""
    told = {}  # flag -> {text: (value, others, commands)}
    for command in commands_of(ridge):
        for flag, others, value, text in help_of(ridge, command):
            told.setdefault(flag, {}).setdefault(text, (value, others, []))[2].append(command)
    lines = ["# What the commands' help says of the flags of its first group. Written by make_corpus.py --flags; do not edit."]
    for flag in sorted(told):
        for text, (value, others, commands) in told[flag].items():
            one = len(told[flag]) > 1
            names = [f"ridge {c} {flag}" for c in commands[:4]] if one else [flag, f"the {flag} flag"]
            names += [f"ridge {commands[0]} {short}" for short in others if not one and len(short) == 2]
            where = ", ".join(commands[:5]) + (" and others" if len(commands) > 5 else "")
            text = re.sub(r"\s*\|\s*", " or ", text)
            lines += ["", f"= {' | '.join(names)}", f"! {flag}{' ' + value if value else ''} of ridge {where}: {text}."]
    (HERE / "corpus" / "flags.txt").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?")
    parser.add_argument("--flags", metavar="RIDGE", help="writes corpus/flags.txt by the help of this executable")
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="from the questions that training never sees")
    args = parser.parse_args()
    if args.flags:
        return write_flags(args.flags)
    corpus, rng = Corpus(), random.Random(args.seed)
    with open(args.out, "w") as out:
        for _ in range(args.conversations):
            out.write(json.dumps(corpus.conversation(rng, args.held_out)) + "\n")


if __name__ == "__main__":
    main()
