'use strict';

// Ages: a <time> element shows how long ago it was, and the time itself as a tooltip.
function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (s < 120) return s + 's';
  if (m < 10) return m + 'm' + (s % 60 ? (s % 60) + 's' : '');
  if (m < 180) return m + 'm';
  if (h < 8) return h + 'h' + (m % 60 ? (m % 60) + 'm' : '');
  if (h < 48) return h + 'h';
  if (d < 8) return d + 'd' + (h % 24 ? (h % 24) + 'h' : '');
  return d < 730 ? d + 'd' : Math.floor(d / 365) + 'y';
}

function showAges(root) {
  for (const time of root.querySelectorAll('time')) {
    const at = Date.parse(time.dateTime);
    const text = at > Date.now() ? time.dateTime : age((Date.now() - at) / 1000) + (time.closest('.when') ? ' ago' : '');
    if (time.textContent !== text) time.textContent = text;
    time.title = time.dateTime;
  }
}

// Replacing elements: the focus and open details stay where they were.
function keep(root) {
  const active = document.activeElement;
  const focused = active && root.contains(active) ? { id: active.id, href: active.getAttribute('href'), text: active.textContent } : null;
  const open = [...root.querySelectorAll('details[open]'), ...(root.matches('details[open]') ? [root] : [])].map((d) => d.id);
  const typed = focused && active.tagName === 'INPUT' ? [active.value, active.selectionStart, active.selectionEnd] : null;
  return (replaced) => {
    for (const id of open) document.getElementById(id)?.setAttribute('open', '');
    if (!focused) return;
    const same = focused.id ? document.getElementById(focused.id)
      : [...replaced.querySelectorAll('a,button')].find((e) => e.getAttribute('href') === focused.href && e.textContent === focused.text);
    (same || document.getElementById('view')).focus({ preventScroll: true });
    if (typed && same) {
      same.value = typed[0];
      same.setSelectionRange(typed[1], typed[2]);
    }
  };
}

function replacePart(id, html) {
  const old = document.getElementById(id);
  if (!old) return;
  const template = document.createElement('template');
  template.innerHTML = html.trim();
  const fresh = template.content.firstElementChild;
  const restore = keep(old);
  old.replaceWith(fresh);
  fresh.classList.add('changed');
  showAges(fresh);
  restore(fresh);
}

function replaceView(html) {
  const view = document.getElementById('view');
  const restore = keep(view);
  view.innerHTML = html;
  showAges(view);
  restore(view);
}

// Live: changes arrive as server-sent events. A page in the background does not listen.
let source = null;
let version = document.body.dataset.version;

function setLive(live, text) {
  const shown = document.getElementById('live');
  shown.toggleAttribute('data-live', live);
  if (shown.textContent !== text) shown.textContent = text;
}

function listen() {
  if (source) source.close();
  const query = new URLSearchParams(location.search);
  query.set('version', version);
  source = new EventSource('/live' + location.pathname + '?' + query);
  source.onopen = () => setLive(true, 'live');
  source.onerror = () => {
    setLive(false, 'not connected: flux pipeline ui has ended');
    // After an answer other than 200, the browser does not try again by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || listen(), 2000);
  };
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    version = event.lastEventId;
    document.title = change.title;
    if (change.view) replaceView(change.view);
    for (const part of change.parts || []) replacePart(part.id, part.html);
  };
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return listen();
  source.close();
  setLive(false, 'paused');
});

// Filters: the address keeps them.
let typing = 0;

function filter() {
  const query = new URLSearchParams(location.search);
  for (const id of ['filter-app', 'filter-namespace']) {
    const field = document.getElementById(id);
    if (field.value.trim()) query.set(field.name, field.value.trim());
    else query.delete(field.name);
  }
  const text = query.toString();
  history.replaceState(null, '', location.pathname + (text ? '?' + text : ''));
  listen();
}

document.addEventListener('input', (event) => {
  if (event.target.id !== 'filter-app') return;
  clearTimeout(typing);
  typing = setTimeout(filter, 150);
});
document.addEventListener('change', (event) => {
  if (event.target.id === 'filter-namespace') filter();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const field = document.getElementById('filter-app');
  if (!field) return;
  event.preventDefault();
  field.focus();
});

// Actions: the server asks what will happen, and a confirmed answer carries a header that no form can send.
const dialog = document.getElementById('dialog');

async function ask(path) {
  const answer = await fetch(path).catch(() => null);
  if (answer && answer.ok) {
    dialog.innerHTML = await answer.text();
  } else {
    dialog.innerHTML = '<form><h2 id="dialog-title">That did not work</h2><p></p><div class="actions"><button type="button" data-close>Close</button></div></form>';
    dialog.querySelector('p').textContent = answer ? await answer.text() : 'flux pipeline ui has ended.';
  }
  dialog.showModal();
}

async function act(form) {
  const outcome = form.querySelector('.outcome');
  const submit = form.querySelector('[type=submit]');
  submit.disabled = true;
  let text = 'flux pipeline ui has ended.';
  let done = false;
  try {
    const answer = await fetch(form.dataset.path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Sluice-Action': 'confirmed' },
      body: JSON.stringify(Object.fromEntries(new FormData(form))),
    });
    const made = answer.ok ? await answer.json() : { done: false, output: await answer.text() };
    text = made.output;
    done = made.done;
  } catch { /* the text says it */ }
  outcome.textContent = text;
  outcome.classList.toggle('failed', !done);
  outcome.hidden = false;
  submit.disabled = false;
  submit.hidden = done;
  const close = form.querySelector('[data-close]');
  close.textContent = 'Close';
  close.focus();
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-action]');
  if (button) ask(button.dataset.action);
  if (event.target.closest('[data-close]')) dialog.close();
});
dialog.addEventListener('submit', (event) => {
  event.preventDefault();
  act(event.target);
});

showAges(document);
setInterval(() => showAges(document), 5000);
listen();
