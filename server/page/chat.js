// The chat sends the whole conversation with each message and shows the answer while it arrives.

const byId = (id) => document.getElementById(id);
const kKept = "ridge-chat", kKey = "ridge-key", kSettings = "ridge-settings";
const kLongestPicture = 1536; // pixels; larger ones are scaled down

let conversation = []; // {role, text, pictures, reasoning, note}
let models = [];
let running = null; // the current answer's AbortController

// ---- the server

async function ask(path, options = {}) {
  const key = sessionStorage.getItem(kKey);
  const headers = {...(key ? {Authorization: "Bearer " + key} : {}), ...options.headers};
  const answer = await fetch(path, {...options, headers});
  if (answer.status === 401) {
    await askForKey(key !== null);
    return ask(path, options);
  }
  if (answer.ok) return answer;
  let problem = "the server answered with status " + answer.status;
  try {
    problem = (await answer.json()).error.message || problem;
  } catch { /* it said no more */ }
  throw new Error(problem);
}

function askForKey(wasWrong) {
  const dialog = byId("ask-key");
  byId("key").value = "";
  dialog.querySelector("p").textContent = wasWrong ? "That key was rejected. " : "This server requires an API key.";
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    sessionStorage.setItem(kKey, byId("key").value.trim());
    resolve();
  }, {once: true}));
}

async function readModels() {
  models = (await (await ask("/v1/models")).json()).data;
  const select = byId("model");
  const before = select.value || settings().model;
  select.replaceChildren(...models.map((model) => new Option(model.id, model.id)));
  if (models.some((model) => model.id === before)) select.value = before;
  select.disabled = models.length < 2;
  showWhatModelTakes();
}

function takesPictures() {
  const model = models.find((one) => one.id === byId("model").value);
  return Boolean(model && model.architecture && model.architecture.input_modalities.includes("image"));
}

function showWhatModelTakes() { byId("attach").hidden = !takesPictures(); }

// The server's step counters: seconds and bytes.
async function stepsSoFar() {
  const text = await (await ask("/metrics")).text();
  const label = models.length > 1 ? `{model=${JSON.stringify(byId("model").value)}}` : "";
  const valueOf = (name) => {
    const line = text.split("\n").find((one) => one.startsWith(`ridge_${name}${label} `));
    return line ? Number(line.slice(line.lastIndexOf(" "))) : 0;
  };
  return {seconds: valueOf("step_seconds_total"), bytes: valueOf("step_bytes_total")};
}

function bandwidth(before, now) {
  const seconds = now.seconds - before.seconds;
  return seconds > 0 ? `${((now.bytes - before.bytes) / seconds / 1e9).toFixed(1)} GB/s` : "";
}

// ---- settings

function settings() {
  try {
    return JSON.parse(sessionStorage.getItem(kSettings)) || {};
  } catch {
    return {};
  }
}

const kFields = ["system", "temperature", "longest", "thinking", "theme", "model"];

function keepSettings() {
  sessionStorage.setItem(kSettings, JSON.stringify(Object.fromEntries(kFields.map((id) => [id, byId(id).value]))));
  document.documentElement.className = byId("theme").value;
}

function showSettings() {
  const kept = settings();
  for (const id of kFields) if (id !== "model" && kept[id]) byId(id).value = kept[id];
  document.documentElement.className = byId("theme").value;
}

// ---- the conversation

function keepConversation() {
  try {
    sessionStorage.setItem(kKept, JSON.stringify(conversation));
  } catch { // too large with pictures
    sessionStorage.setItem(kKept, JSON.stringify(conversation.map((message) => ({...message, pictures: []}))));
  }
}

function contentOf(message) {
  if (!message.pictures || message.pictures.length === 0) return message.text;
  return [...message.pictures.map((url) => ({type: "image_url", image_url: {url}})), {type: "text", text: message.text}];
}

function requestOf(messages) {
  const system = byId("system").value.trim();
  const body = {
    model: byId("model").value,
    messages: messages.map((message) => ({role: message.role, content: contentOf(message)})),
    stream: true,
    stream_options: {include_usage: true},
    timings_per_token: true,
    return_progress: true,
  };
  if (system) body.messages.unshift({role: "system", content: system});
  if (byId("temperature").value !== "") body.temperature = Number(byId("temperature").value);
  if (byId("longest").value !== "") body.max_tokens = Number(byId("longest").value);
  if (byId("thinking").value !== "") body.chat_template_kwargs = {enable_thinking: byId("thinking").value === "on"};
  return body;
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines)
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}

function button(name, title, act) {
  const made = element("button", "", name);
  made.type = "button";
  made.title = title;
  made.addEventListener("click", act);
  return made;
}

function userMessage(message, index) {
  const body = element("div", "body", message.text);
  const pictures = (message.pictures || []).map((url) => {
    const picture = element("img");
    picture.src = url;
    picture.alt = "an image in this message";
    return picture;
  });
  if (pictures.length > 0) body.prepend(...pictures);
  const edit = button("Edit", "Edit this message; everything after it is removed", () => {
    if (running) return;
    byId("text").value = message.text;
    showAttached(message.pictures || []);
    conversation = conversation.slice(0, index);
    showConversation();
    byId("text").focus();
  });
  return element("article", "message user", body, element("div", "tools", edit));
}

function answerMessage(message, index) {
  const made = element("article", "message assistant");
  const reasoning = element("details", "reasoning", element("summary"), element("div"));
  const body = element("div", "body");
  const note = element("span", "quiet");
  const tools = element("div", "tools", copyButton(() => message.text),
    button("Regenerate", "Regenerate this answer; everything after it is removed", () => {
      if (running) return;
      conversation = conversation.slice(0, index);
      answer();
    }), note);
  made.append(reasoning, body, tools);
  made.show = (isRunning, waiting = "") => {
    reasoning.hidden = !message.reasoning;
    reasoning.firstChild.textContent = isRunning && !message.text ? "Thinking…" : "Thoughts";
    if (message.reasoning && reasoning.lastChild.textContent !== message.reasoning)
      reasoning.lastChild.textContent = message.reasoning;
    showMarkdown(body, message.text);
    body.classList.toggle("waiting", isRunning);
    note.textContent = isRunning ? waiting : message.note || "";
    for (const one of tools.querySelectorAll("button")) one.hidden = isRunning;
  };
  made.show(false);
  return made;
}

function showConversation() {
  const target = byId("messages");
  target.replaceChildren(...conversation.map((message, i) =>
    message.role === "user" ? userMessage(message, i) : answerMessage(message, i)));
  if (conversation.length === 0)
    target.append(element("p", "empty", "Ask something. This conversation stays in this tab."));
  target.scrollTop = target.scrollHeight;
}

function showProblem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
}

function noteOf(timings, bytes, end) {
  const parts = [];
  if (timings)
    parts.push(`${timings.predicted_n} tokens`, `${timings.predicted_per_second.toFixed(1)} tok/s`);
  if (bytes) parts.push(bytes);
  if (timings && timings.prompt_n > 15 && timings.prompt_per_second > 0)
    parts.push(`prompt ${timings.prompt_n} at ${timings.prompt_per_second.toFixed(0)} tok/s`);
  if (end === "length") parts.push("cut off at the maximum length");
  if (end === "stopped") parts.push("stopped");
  return parts.join(" · ");
}

// Answers the last message, which is the user's.
async function answer() {
  const message = {role: "assistant", text: "", reasoning: "", note: ""};
  const asked = requestOf(conversation);
  conversation.push(message);
  showConversation();
  showProblem("");
  const shown = byId("messages").lastChild;
  running = new AbortController();
  byId("send").textContent = "Stop";
  const model = models.find((one) => one.id === asked.model);
  const isLoaded = !model || !model.status || model.status.value === "loaded";
  let timings = null, end = "", waiting = isLoaded ? "" : "loading the model", drawn = 0, live = "";

  const draw = () => {
    drawn = 0;
    const target = byId("messages");
    const follows = target.scrollHeight - target.scrollTop - target.clientHeight < 80;
    shown.show(Boolean(running), waiting);
    if (follows) target.scrollTop = target.scrollHeight;
    if (timings && running)
      byId("speed").textContent = [`${timings.predicted_per_second.toFixed(1)} tok/s`, live].filter(Boolean).join(" · ");
  };
  let before = null, last = null;
  const measure = async () => {
    const now = await stepsSoFar();
    if (last && now.seconds > last.seconds) live = bandwidth(last, now);
    before = before || now;
    last = now;
  };
  let gauge = 0;
  try {
    await measure();
    gauge = setInterval(() => { measure().catch(() => {}); }, 500);
    draw();
    const response = await ask("/v1/chat/completions", {
      method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(asked), signal: running.signal,
    });
    for await (const event of eventsOf(response)) {
      if (event.error) throw new Error(event.error.message);
      if (!isLoaded) model.status.value = "loaded";
      const choice = event.choices[0];
      if (event.prompt_progress)
        waiting = `reading the prompt: ${Math.floor(100 * event.prompt_progress.processed / event.prompt_progress.total)} %`;
      if (choice && (choice.delta.content || choice.delta.reasoning_content)) {
        message.text += choice.delta.content || "";
        message.reasoning += choice.delta.reasoning_content || "";
        waiting = "";
      }
      if (choice && choice.finish_reason) end = choice.finish_reason;
      if (event.timings) timings = event.timings;
      if (!drawn) drawn = requestAnimationFrame(draw);
    }
  } catch (problem) {
    if (problem.name === "AbortError") end = "stopped";
    else showProblem(problem.message);
  }
  clearInterval(gauge);
  try {
    await measure();
  } catch { /* the note does without */ }
  if (drawn) cancelAnimationFrame(drawn);
  running = null;
  byId("send").textContent = "Send";
  message.note = noteOf(timings, before && last ? bandwidth(before, last) : "", end);
  const isLast = conversation[conversation.length - 1] === message; // false after a new chat
  const isEmpty = !message.text && !message.reasoning && end !== "stop";
  if (isLast && isEmpty) conversation.pop();
  if (isLast) keepConversation();
  draw();
  if (isLast && isEmpty) showConversation();
}

// ---- input and attachments

function attached() { return [...byId("pictures").querySelectorAll("img")].map((picture) => picture.src); }

function showAttached(urls) {
  byId("pictures").replaceChildren(...urls.map((url) => {
    const picture = element("img");
    picture.src = url;
    picture.alt = "an image to send";
    const one = button("", "Remove", () => one.remove());
    one.append(picture);
    return one;
  }));
}

// A scaled-down JPEG.
async function pictureOf(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, kLongestPicture / Math.max(bitmap.width, bitmap.height));
  const canvas = element("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}

async function attach(files) {
  const pictures = [...files].filter((file) => file.type.startsWith("image/"));
  if (pictures.length === 0) return;
  if (!takesPictures()) return showProblem("This model does not accept images.");
  try {
    showAttached([...attached(), ...await Promise.all(pictures.map(pictureOf))]);
  } catch {
    showProblem("The browser cannot read this image.");
  }
}

function send() {
  const text = byId("text").value.trim();
  if (running) return running.abort();
  if (!text && attached().length === 0) return;
  conversation.push({role: "user", text, pictures: attached()});
  byId("text").value = "";
  showAttached([]);
  fitText();
  answer();
}

function fitText() {
  const text = byId("text");
  text.style.height = "auto";
  text.style.height = text.scrollHeight + 2 + "px";
}

function start() {
  showSettings();
  try {
    conversation = JSON.parse(sessionStorage.getItem(kKept)) || [];
  } catch {
    conversation = [];
  }
  showConversation();
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || running) return;
    event.preventDefault();
    send();
  });
  byId("text").addEventListener("input", fitText);
  byId("text").addEventListener("paste", (event) => attach(event.clipboardData.files));
  byId("attach").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", () => attach(byId("file").files).then(() => { byId("file").value = ""; }));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    attach(event.dataTransfer.files);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running) running.abort();
  });
  byId("new").addEventListener("click", () => {
    if (running) running.abort();
    conversation = [];
    keepConversation();
    showConversation();
    showProblem("");
    byId("speed").textContent = "";
    byId("text").focus();
  });
  byId("settings").addEventListener("click", () => {
    byId("panel").hidden = !byId("panel").hidden;
    byId("settings").setAttribute("aria-expanded", String(!byId("panel").hidden));
  });
  byId("panel").addEventListener("submit", (event) => event.preventDefault());
  for (const id of kFields) byId(id).addEventListener("change", keepSettings);
  byId("model").addEventListener("change", showWhatModelTakes);
  readModels().catch((problem) => showProblem(problem.message));
}

start();
