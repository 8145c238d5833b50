// Browsers start no workers for pages that are opened from files: run the script in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.frame = new Promise((resolve) => {
        frame.onload = () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.src = url;
          script.onload = () => resolve(inner);
          inner.document.head.append(script);
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.frame.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
