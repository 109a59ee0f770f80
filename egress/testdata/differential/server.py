"""Servers of Python for the differential test: server.py KIND PORT. Each answers with
what it obeyed, after the word OBEYED."""

import json
import sys
from importlib.metadata import version
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

kind, port = sys.argv[1], int(sys.argv[2])


def obeyed(method, path, host):
    return "OBEYED " + json.dumps({"method": method, "path": path, "host": host})


def flask_app():
    from flask import Flask, request
    from werkzeug.middleware.proxy_fix import ProxyFix

    app = Flask("sample")

    @app.before_request
    def answer():
        return obeyed(request.method, (request.script_root or "") + request.path, request.host.removesuffix(":81"))

    inner = app.wsgi_app

    def override(environ, start):  # as Flask's documentation has it
        method = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", "").upper()
        if method in {"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"}:
            environ["REQUEST_METHOD"] = method
        return inner(environ, start)

    app.wsgi_app = ProxyFix(override, x_host=1, x_prefix=1)
    return app, f"Flask {version('flask')}, Werkzeug {version('werkzeug')}"


def django_app():
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse

    settings.configure(ALLOWED_HOSTS=["*"], USE_X_FORWARDED_HOST=True, ROOT_URLCONF="urls", SECRET_KEY="sample", MIDDLEWARE=["urls.answer"])

    def answer(get_response):
        return lambda r: HttpResponse(obeyed(r.method, r.path, r.get_host().removesuffix(":81")))

    import types

    urls = types.ModuleType("urls")
    urls.urlpatterns, urls.answer = [], answer
    sys.modules["urls"] = urls
    return get_wsgi_application(), f"Django {django.get_version()}"


def webob_app():
    from webob import Request, Response

    def app(environ, start):
        r = Request(environ)
        return Response(obeyed(r.method, r.script_name + r.path_info, r.host.removesuffix(":81")))(environ, start)

    return app, f"WebOb {version('webob')}"


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True


if kind == "werkzeug":
    from werkzeug.serving import WSGIRequestHandler as Handler
    from werkzeug.serving import make_server as serve

    app, name = flask_app()
    Handler.log = lambda *a: None
    server = serve("127.0.0.1", port, app, threaded=True, request_handler=Handler)
else:
    app, name = {"django": django_app, "webob": webob_app}[kind]()
    server = make_server("127.0.0.1", port, app, server_class=Server, handler_class=Quiet)
print("READY " + name + ", Python " + sys.version.split()[0], flush=True)
server.serve_forever()
