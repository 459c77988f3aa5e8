// A live page asks the server it came from for news. Nothing here runs in a report.
const FASTEST = 0.5; // Seconds between two questions to the server, at least.
const PATIENCE = 20; // Seconds after which a question counts as lost.
const asking = new Set();
let tag = "",
  polling = false,
  next = null;

async function ask(address, headers = {}) {
  return fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(1000 * PATIENCE) });
}

async function askForDetails(run) {
  if (asking.has(run.id)) return;
  asking.add(run.id);
  try {
    const answer = await ask(`run.json?run=${encodeURIComponent(run.id)}`);
    if (answer.ok) {
      details.set(run.id, [run.version, await answer.json()]);
      drawRun();
    }
  } catch {
    /* The next round asks again. */
  } finally {
    asking.delete(run.id);
  }
}

// One round: ask for news, draw what came, and say how that went.
async function poll() {
  let wait = data.every || 2;
  polling = true;
  clearTimeout(next);
  try {
    if (document.hidden) return;
    const answer = await ask("data.json", tag ? { "If-None-Match": tag } : {});
    if (answer.status === 200) {
      tag = answer.headers.get("ETag") || "";
      data = await answer.json();
      document.title = data.title;
      byId("title").textContent = data.title;
      byId("subtitle").textContent = data.subtitle;
      wait = data.every;
      drawAll();
    } else if (answer.status !== 304) throw new Error(`the server answered ${answer.status}`);
    say(true, `live, as of ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    say(false, `no connection since ${byId("live").dataset.last || "the start"}; is abps watch still running?`);
  } finally {
    polling = false;
    next = setTimeout(poll, 1000 * Math.max(FASTEST, wait));
  }
}

// Whoever comes back to the page, or opened it behind another one, sees news now and not a round later.
document.addEventListener("visibilitychange", () => {
  if (data.live && !document.hidden && !polling) poll();
});

function say(well, text) {
  byId("live").hidden = false;
  byId("live").className = well ? "live well" : "live lost";
  byId("live").textContent = text;
  if (well) byId("live").dataset.last = new Date().toLocaleTimeString();
}
