// A WebSocket as a transport of the SDK, for either end.

import { WebSocket } from 'ws'

export class WebSocketTransport {
  #socket

  constructor(socket) {
    this.#socket = socket
  }

  async start() {
    const socket = this.#socket
    socket.on('message', data => this.#receive(String(data)))
    socket.on('error', error => this.onerror?.(error))
    // It must tell when the wire is gone: that is how the other end learns to come back.
    socket.on('close', () => this.onclose?.())
    if (socket.readyState === WebSocket.OPEN) return
    await new Promise((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
  }

  /** Anybody can send what is no JSON: that is no reason for the process to end. */
  #receive(text) {
    let message
    try {
      message = JSON.parse(text)
    } catch (error) {
      return this.onerror?.(error)
    }
    this.onmessage?.(message)
  }

  send(message) {
    return new Promise((resolve, reject) => {
      this.#socket.send(JSON.stringify(message), error => (error ? reject(error) : resolve()))
    })
  }

  async close() {
    this.#socket.close()
  }
}
