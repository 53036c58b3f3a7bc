// Browsers start no workers for pages of the file system. The search's worker runs in a frame there instead.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.#ready = new Promise((done) => script.addEventListener("load", done));
      script.src = url;
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.#ready.then(() => this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }
  }
  // the theme's worker asks for the first name to know that it is in a frame
  window.IFrameWorker = FrameWorker;
  window.Worker = FrameWorker;
}
