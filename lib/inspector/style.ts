// How the page looks: light and dark by the reader's own preference, one column on a phone.

export const STYLE = /* CSS */ `:root {
  color-scheme: light dark;
  --page: #f3f5f9;
  --card: #fff;
  --text: #1b2330;
  --soft: #5a6678;
  --line: #d5dbe5;
  --edge: #8590a2;
  --accent: #2457d6;
  --connection: #2f68de;
  --wait: #92600c;
  --cut: #c9243a;
  --fine: #12803f;
  --turn: #7a3fc4;
}

@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141b;
    --card: #191f29;
    --text: #e6eaf1;
    --soft: #9daabd;
    --line: #323c4c;
    --edge: #6b788c;
    --accent: #7ea6ff;
    --connection: #5b8df5;
    --wait: #dba444;
    --cut: #ff6b7c;
    --fine: #4ecb82;
    --turn: #bb8cf5;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }

.hidden {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}

body {
  max-width: 1180px;
  margin: 0 auto;
  padding: 20px clamp(12px, 3vw, 32px) 32px;
  background: var(--page);
  color: var(--text);
  font:
    16px/1.45 system-ui,
    'Segoe UI',
    'DejaVu Sans',
    sans-serif;
}

h1,
h2,
p { margin: 0; }
h1 { font-size: 1.7rem; }
h2 { font-size: 1.05rem; }

code,
.name { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 0.92em; }

header,
.controls {
  display: flex;
  flex-wrap: wrap;
  gap: 10px 20px;
  align-items: end;
  justify-content: space-between;
}
header { margin-bottom: 16px; }

header p,
.soft { color: var(--soft); }
.soft { font-size: 0.9rem; }
.project { font-size: 0.85rem; font-weight: 600; }
.controls { align-items: center; }

#link::before {
  display: inline-block;
  width: 10px;
  height: 10px;
  margin-right: 7px;
  border-radius: 50%;
  background: var(--wait);
  content: '';
}
#link[data-state='fine']::before { background: var(--fine); }
#link[data-state='lost']::before { background: var(--cut); }

button {
  min-height: 42px;
  padding: 8px 16px;
  border: 1px solid var(--edge);
  border-radius: 8px;
  background: var(--card);
  color: inherit;
  font: inherit;
  cursor: pointer;
}
button:hover { box-shadow: inset 0 0 0 1px currentcolor; }
button:active { transform: translateY(1px); }
button[aria-pressed='true'] { border-color: var(--turn); color: var(--turn); }
:focus-visible { outline: 3px solid var(--turn); outline-offset: 2px; }

main,
.two { display: grid; gap: 16px; }
.two { grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); }

section {
  min-width: 0;
  padding: 16px;
  border: 1px solid var(--line);
  border-radius: 12px;
  background: var(--card);
}

ul,
ol,
dl { margin: 0; padding: 0; list-style: none; }
dd { margin: 0; font-variant-numeric: tabular-nums; }

#saved {
  display: grid;
  grid-template-columns: repeat(4, minmax(0, 1fr));
  gap: 12px 20px;
  margin-top: 8px;
}
#saved > div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }

#saved .figure {
  color: var(--fine);
  font-size: clamp(2rem, 5vw, 2.9rem);
  font-weight: 650;
  line-height: 1.15;
}
#saved [data-value='0'] .figure { color: var(--soft); }
#saved dt { font-weight: 600; }
#saved small { display: block; color: var(--soft); font-size: 0.85rem; font-weight: 400; }
#chart { display: block; width: 100%; height: 210px; margin: 8px 0; forced-color-adjust: none; }
svg text { fill: var(--soft); font-size: 12px; }
svg text.middle { text-anchor: middle; }
svg text.end { text-anchor: end; }
svg .grid { stroke: var(--line); }
svg .axis { stroke: var(--edge); }
svg .area { fill: var(--connection); opacity: 0.18; }

svg polyline {
  fill: none;
  stroke: var(--connection);
  stroke-width: 2;
  stroke-linejoin: round;
  stroke-linecap: round;
}
svg polyline.waiting { stroke: var(--turn); stroke-dasharray: 2 5; }

svg .cuts,
.swatch.cuts { fill: var(--wait); background: var(--wait); }

svg .mended,
.swatch.mended { fill: var(--fine); background: var(--fine); }

svg .failed,
.swatch.failed { fill: var(--cut); background: var(--cut); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; color: var(--soft); font-size: 0.85rem; }

.swatch {
  display: inline-block;
  width: 12px;
  height: 10px;
  margin-right: 6px;
  border-radius: 3px;
  forced-color-adjust: none;
}
.swatch.running { height: 4px; margin-bottom: 3px; background: var(--connection); }

.swatch.waiting {
  height: 0;
  margin-bottom: 4px;
  border-top: 3px dotted var(--turn);
  border-radius: 0;
}
#limits { display: grid; gap: 10px; margin-top: 8px; }

#limits label {
  display: flex;
  flex-wrap: wrap;
  gap: 0 12px;
  justify-content: space-between;
  font-size: 0.9rem;
}
#limits label > :last-child { color: var(--soft); font-variant-numeric: tabular-nums; }

progress {
  display: block;
  width: 100%;
  height: 8px;
  margin-top: 3px;
  border: 0;
  border-radius: 4px;
  background: var(--line);
  color: var(--fine);
  overflow: hidden;
  appearance: none;
}
progress[data-level='high'] { color: var(--wait); }
progress[data-level='full'] { color: var(--cut); }
progress::-webkit-progress-bar { background: var(--line); }
progress::-webkit-progress-value { background: currentcolor; }
progress::-moz-progress-bar { background: currentcolor; }

#now {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(92px, 1fr));
  gap: 6px 10px;
  margin: 8px 0 12px;
}
#now > div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
#now dt { color: var(--soft); font-size: 0.8rem; }
#now dd { font-size: 1.25rem; font-weight: 600; }
#done:not(:empty) { margin-bottom: 8px; color: var(--fine); }
#done[data-state='lost'] { color: var(--cut); }
table { width: 100%; border-collapse: collapse; font-size: 0.92rem; }

th,
td {
  padding: 5px 10px 5px 0;
  border-top: 1px solid var(--line);
  text-align: left;
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}
thead th {
  position: sticky;
  z-index: 1;
  top: 0;
  border-top: 0;
  background: var(--card);
  color: var(--soft);
  font-size: 0.8rem;
  font-weight: 400;
}
tbody th { font-weight: 400; }
.number { text-align: right; }
.number + :not(.number) { padding-left: 14px; }
.action { padding-right: 0; text-align: right; }

td button {
  min-height: 32px;
  padding: 2px 12px;
  border-color: var(--cut);
  color: var(--cut);
  font-size: 0.85rem;
}

.state::before {
  display: inline-block;
  width: 9px;
  height: 9px;
  margin-right: 7px;
  border-radius: 50%;
  background: var(--connection);
  content: '';
}
[data-state='waiting'] .state::before { background: var(--turn); }
[data-state='completed'] .state::before { background: var(--fine); }
[data-state='failed'] .state::before { background: var(--cut); }
[data-away='yes'] .client { color: var(--wait); }
#more:not(:empty) { margin-top: 8px; }
.scrolls { max-height: 460px; overflow: auto; }
#requests { margin-top: 8px; }

#requests > li {
  display: grid;
  grid-template-columns: 5.2em 4.6em 8.5em minmax(0, 1fr);
  gap: 0 10px;
  padding: 5px 6px 5px 0;
  border-top: 1px solid var(--line);
  font-size: 0.9rem;
  font-variant-numeric: tabular-nums;
}

#requests time,
#requests .none { color: var(--soft); }
#requests .outcome { color: var(--soft); }
#requests [data-outcome='open'] .outcome { color: var(--connection); }
#requests [data-outcome='broken'] .outcome { color: var(--wait); }
#requests [data-outcome='refused'] .outcome { color: var(--cut); }

#requests .lines li {
  font:
    0.85rem/1.6 ui-monospace,
    'DejaVu Sans Mono',
    monospace;
  overflow-wrap: anywhere;
}
#requests:empty::before { color: var(--soft); content: 'The next request will be listed here.'; }
#instances li { padding: 5px 0; }

@media (max-width: 820px) {
  .two { grid-template-columns: minmax(0, 1fr); }
  #saved { grid-template-columns: repeat(2, minmax(0, 1fr)); }

  /* Each stream is a card of its own. */
  thead {
    display: block;
    position: absolute;
    width: 1px;
    height: 1px;
    overflow: hidden;
    clip-path: inset(50%);
  }

  table,
  tbody { display: block; }

  tbody tr {
    display: grid;
    grid-template-columns: 1fr 1fr;
    gap: 2px 14px;
    padding: 8px 0;
    border-top: 1px solid var(--line);
  }

  tbody th,
  tbody td {
    display: flex;
    gap: 8px;
    align-items: baseline;
    justify-content: space-between;
    padding: 0;
    border: 0;
  }
  .number + :not(.number) { padding: 0; }

  tbody td.state,
  tbody td.action { justify-content: flex-end; }
  .state::before { align-self: center; margin: 0; }
  td[data-label]::before {
    color: var(--soft);
    font: 0.92rem system-ui, 'DejaVu Sans', sans-serif;
    content: attr(data-label);
  }
  td.action { grid-column: 1 / -1; }
  td.action:empty { display: none; }
  td button { width: 100%; min-height: 42px; }
  #requests > li { grid-template-columns: 5.2em 4.6em minmax(0, 1fr); }
  #requests .lines { grid-column: 1 / -1; }
}

@media (max-width: 480px) {
  body { padding: 14px 10px 24px; }
  section { padding: 12px; }
  .controls { flex: 1 1 100%; }
}
`
