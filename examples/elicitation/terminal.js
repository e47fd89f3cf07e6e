// What you see: questions, and the news of the wire above them.

import { clearLine, createInterface, cursorTo } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const { stdin, stdout } = process

/** `ask(question)` answers the line that was typed; `news(line)` writes above it. */
export function openTerminal() {
  const lines = createInterface({ input: stdin, output: stdout, prompt: '' })
  const typed = []
  let answer
  let isClosed = false
  const look = () => {
    if (typed.length > 0) answer?.resolve(typed.shift())
    else if (isClosed)
      answer?.reject(
        new Error('No more input: nobody is there to answer. Try `npm run elicitation -- --yes`')
      )
    else return
    answer = undefined
  }
  // Lines may come before they are asked for, where they come from a pipe.
  lines.on('line', line => look(typed.push(line)))
  // The terminal is as it was, and the process ends as it would without `readline`.
  lines.on('SIGINT', () => {
    lines.close()
    process.kill(process.pid, 'SIGINT')
  })
  lines.on('close', () => look((isClosed = true)))
  return {
    async ask(question) {
      // Newer versions of Node do not prompt once the input has ended, though lines of it may be
      // left.
      if (isClosed) stdout.write(`${question} `)
      else {
        lines.setPrompt(`${question} `)
        lines.prompt()
      }
      const line = await new Promise((resolve, reject) => look((answer = { resolve, reject })))
      lines.setPrompt('')
      return line.trim()
    },
    news(line) {
      const hasPrompt = answer !== undefined && stdout.isTTY
      if (hasPrompt) {
        cursorTo(stdout, 0)
        clearLine(stdout, 0)
      }
      console.log(line)
      if (hasPrompt) lines.prompt(true)
    },
    close: () => lines.close()
  }
}

/** Nobody sits there: after a moment of thought, whatever is suggested will do. */
export function openUnattended() {
  return {
    async ask(question) {
      await sleep(300)
      console.log(question)
      return ''
    },
    news: console.log,
    close() {}
  }
}
