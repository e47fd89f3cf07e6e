// PM2: `pm2 start ecosystem.config.cjs`. One process: a stream lives in the one that runs its handler.
module.exports = {
  apps: [
    {
      name: 'mcp',
      script: 'server.js',
      exec_mode: 'fork',
      instances: 1,
      kill_timeout: 25_000, // above `drain` of streams.close(), 20 s: PM2 waits 1.6 s otherwise
      env: { NODE_ENV: 'production', PORT: 3000 }
    }
  ]
}
