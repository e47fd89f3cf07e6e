// The page. What it shows is put in by its script.

export const PAGE = /* HTML */ `<!doctype html>
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>Inspector: express-mcp-streams</title>
      <link rel="icon" href="data:," />
      <link rel="stylesheet" href="style.css" />
      <script type="module" src="script.js"></script>
    </head>
    <body>
      <header>
        <div>
          <p class="project">express-mcp-streams</p>
          <h1>Inspector</h1>
          <p>
            What <code>mcpStreams()</code> does in this process, now. Streams and owners have
            made-up names.
          </p>
        </div>
        <div class="controls">
          <p id="link" role="status" data-state="wait">Connecting</p>
          <button type="button" id="pause" aria-pressed="false">Pause</button>
        </div>
      </header>
      <main>
        <section aria-labelledby="saved-title">
          <h2 id="saved-title">Calls saved since the start</h2>
          <dl id="saved"></dl>
        </section>

        <div class="two">
          <section aria-labelledby="chart-title">
            <h2 id="chart-title">The last fifteen minutes</h2>
            <p id="since" class="soft"></p>
            <svg id="chart" role="img" aria-label="Nothing is known yet"></svg>
            <ul class="legend" aria-label="What is drawn">
              <li><i class="swatch running"></i>running calls</li>
              <li><i class="swatch waiting"></i>waiting for their client</li>
              <li><i class="swatch cuts"></i>connections lost</li>
              <li><i class="swatch mended"></i>clients back</li>
              <li><i class="swatch failed"></i>streams failed</li>
            </ul>
          </section>

          <section aria-labelledby="limits-title">
            <h2 id="limits-title">Limits</h2>
            <ul id="limits"></ul>
            <p id="unused" class="soft"></p>
          </section>
        </div>

        <section aria-labelledby="streams-title">
          <h2 id="streams-title">Streams</h2>
          <dl id="now"></dl>
          <p id="done" role="status"></p>
          <!-- It scrolls, so the keyboard must get there. -->
          <div class="scrolls" tabindex="0" role="group" aria-labelledby="streams-title">
            <table>
              <thead>
                <tr>
                  <th scope="col">Stream</th>
                  <th scope="col">State</th>
                  <th scope="col">Client</th>
                  <th scope="col" class="number">Age</th>
                  <th scope="col" class="number">Events</th>
                  <th scope="col" class="number">Bytes kept</th>
                  <th scope="col" class="number">Connections</th>
                  <th scope="col">Owner</th>
                  <th scope="col" class="action"><span class="hidden">Action</span></th>
                </tr>
              </thead>
              <tbody id="streams"></tbody>
            </table>
          </div>
          <p id="more" class="soft"></p>
        </section>

        <section aria-labelledby="requests-title">
          <h2 id="requests-title">The last hundred requests</h2>
          <p class="soft">
            What was decided and why, as <code>DEBUG=mcp-streams</code> prints it. Only requests
            since this page is open.
          </p>
          <!-- It scrolls, so the keyboard must get there. -->
          <ol id="requests" class="scrolls" tabindex="0" aria-labelledby="requests-title"></ol>
        </section>

        <section aria-labelledby="instances-title" id="others" hidden>
          <h2 id="instances-title">Instances</h2>
          <ul id="instances"></ul>
        </section>
      </main>
      <noscript>This page needs its script.</noscript>
    </body>
  </html> `
