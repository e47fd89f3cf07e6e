// Opens a page in the browser of this machine, where there is one.

import { spawn } from 'node:child_process'

// `start` is a command of the shell; its first argument is a window title.
const COMMANDS = { darwin: ['open'], win32: ['cmd', '/c', 'start', ''] }

export function openBrowser(url) {
  const [command, ...args] = COMMANDS[process.platform] ?? ['xdg-open']
  const child = spawn(command, [...args, url], { stdio: 'ignore', detached: true })
  // Without a browser there is still the URL to copy.
  child.on('error', () => {}).unref()
}
